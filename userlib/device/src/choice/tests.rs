//! The rules of the choice, in environments of the tests' own.

use std::collections::BTreeMap;

use super::*;

/// An environment, the card that is there, and kinds that cannot be used.
#[derive(Default)]
struct Lab {
    variables: BTreeMap<&'static str, &'static str>,
    card: Option<&'static str>,
    missing: Vec<Kind>,
}

impl Lab {
    fn with(variables: &[(&'static str, &'static str)]) -> Lab {
        Lab { variables: variables.iter().copied().collect(), ..Lab::default() }
    }

    fn card(self, path: &'static str) -> Lab {
        Lab { card: Some(path), ..self }
    }

    fn without(self, kind: Kind) -> Lab {
        Lab { missing: vec![kind], ..self }
    }

    fn choose(&self, asked: Option<Kind>) -> Result<Choice, ChoiceError> {
        choose_in(self, asked, None, None)
    }

    /// The kind, and why.
    fn kind(&self) -> (Kind, Reason) {
        let Choice { kind, reason, .. } = self.choose(None).unwrap();
        (kind, reason)
    }

    fn error(&self, asked: Option<Kind>) -> String {
        self.choose(asked).unwrap_err().to_string()
    }
}

impl Place for Lab {
    fn variable(&self, name: &str) -> Option<OsString> {
        self.variables.get(name).map(OsString::from)
    }

    fn card(&self) -> Option<String> {
        self.card.map(str::to_owned)
    }

    fn available(&self, kind: Kind, processor: Option<ProcessorKind>) -> Result<(), DeviceError> {
        match self.missing.contains(&kind) && processor != Some(ProcessorKind::Cpu) {
            true => Err(DeviceError::NotAvailable { kind, reason: "it is not plugged in".into() }),
            false => Ok(()),
        }
    }
}

const CARD: &str = "/dev/extoll0";

#[test]
fn without_a_word_it_is_the_card_or_else_the_model() {
    assert_eq!(Lab::default().kind(), (Kind::Sim, Reason::NoCard));
    assert_eq!(Lab::default().card(CARD).kind(), (Kind::Hw, Reason::Card(CARD.into())));
    let empty = Lab::with(&[(DEVICE, ""), (OLD_DEVICE, "")]);
    assert_eq!(empty.kind(), (Kind::Sim, Reason::NoCard));
    // A card that is there and cannot be used is no reason to take the model in silence.
    let broken = Lab::default().card(CARD).without(Kind::Hw).error(None);
    assert!(broken.contains("not plugged in") && broken.contains("GGAS_DEVICE=sim"), "{broken}");
}

#[test]
fn a_variable_counts_before_what_is_there() {
    for kind in Kind::ALL {
        assert_eq!(Lab::with(&[(DEVICE, kind.name())]).card(CARD).kind(), (kind, Reason::Variable(DEVICE)));
    }
    for kind in [Kind::Sim, Kind::Hw] {
        let old = Lab::with(&[(OLD_DEVICE, kind.name())]);
        assert_eq!(old.kind(), (kind, Reason::Variable(OLD_DEVICE)));
        let both = Lab::with(&[(OLD_DEVICE, kind.name()), (DEVICE, kind.name())]);
        assert_eq!(both.kind(), (kind, Reason::Variable(DEVICE)));
    }
}

#[test]
fn who_asks_gets_it_whatever_the_environment_says() {
    let rubbish = Lab::with(&[(DEVICE, "rubbish"), (OLD_DEVICE, "hw")]).card(CARD);
    for kind in Kind::ALL {
        let choice = rubbish.choose(Some(kind)).unwrap();
        assert_eq!((choice.kind, choice.reason), (kind, Reason::Asked));
    }
}

#[test]
fn a_preference_counts_before_what_is_there_only() {
    let with = |lab: Lab, asked| {
        let choice = choose_in(&lab, asked, None, Some(Kind::Nvlink)).unwrap();
        (choice.kind, choice.reason)
    };
    assert_eq!(with(Lab::default().card(CARD), None), (Kind::Nvlink, Reason::Preferred));
    assert_eq!(with(Lab::with(&[(OLD_DEVICE, "sim")]), None), (Kind::Sim, Reason::Variable(OLD_DEVICE)));
    assert_eq!(with(Lab::default(), Some(Kind::Sim)), (Kind::Sim, Reason::Asked));
}

#[test]
fn words_that_nobody_knows_are_refused_with_those_that_there_are() {
    let said = |pairs: &[(&'static str, &'static str)]| Lab::with(pairs).error(None);
    assert_eq!(said(&[(DEVICE, "gpu")]), "GGAS_DEVICE=gpu: use sim, hw or nvlink");
    assert_eq!(said(&[(DEVICE, "SIM")]), "GGAS_DEVICE=SIM: use sim, hw or nvlink");
    assert_eq!(said(&[(OLD_DEVICE, "nvlink")]), "EXTOLL_DEVICE=nvlink: use sim or hw");
    // A word that does not count is looked at, too: it is a mistake all the same.
    assert_eq!(said(&[(DEVICE, "sim"), (OLD_DEVICE, "x")]), "EXTOLL_DEVICE=x: use sim or hw");
    assert_eq!(said(&[(PROCESSOR, "tpu")]), "GGAS_PROCESSOR=tpu: use cpu or gpu");
    assert_eq!("ether".parse::<Kind>().unwrap_err().to_string(), "ether: use sim, hw or nvlink");
    assert_eq!("nvlink".parse::<Kind>().unwrap(), Kind::Nvlink);
}

#[test]
fn variables_that_differ_are_refused() {
    let differ = Lab::with(&[(DEVICE, "hw"), (OLD_DEVICE, "sim")]).error(None);
    assert!(differ.starts_with("GGAS_DEVICE=hw and EXTOLL_DEVICE=sim differ"), "{differ}");
}

#[test]
fn a_device_that_is_not_there_is_named_with_who_wanted_it() {
    let hw = |pairs: &[(&'static str, &'static str)]| Lab::with(pairs).without(Kind::Hw);
    let by_variable = hw(&[(OLD_DEVICE, "hw")]).error(None);
    assert!(by_variable.starts_with("EXTOLL_DEVICE=hw: no hw device here: it is not"), "{by_variable}");
    assert!(by_variable.ends_with("GGAS_DEVICE=sim takes the model"), "{by_variable}");
    assert_eq!(hw(&[]).error(Some(Kind::Hw)), "no hw device here: it is not plugged in");
}

#[test]
fn engines_on_the_executor_need_no_gpu() {
    let lab = || Lab::with(&[(DEVICE, "nvlink")]).without(Kind::Nvlink);
    assert!(lab().error(None).contains("no nvlink device here"));
    let cpu = Some(ProcessorKind::Cpu);
    assert_eq!(choose_in(&lab(), None, cpu, None).unwrap().processor, cpu);
    let by_variable = Lab::with(&[(DEVICE, "nvlink"), (PROCESSOR, "cpu")]).without(Kind::Nvlink);
    assert_eq!(by_variable.choose(None).unwrap().processor, cpu);
    // The caller's word counts before the variable's.
    assert!(choose_in(&by_variable, None, Some(ProcessorKind::Gpu), None).is_err());
    assert_eq!(available(Kind::Nvlink, cpu).map_err(|error| error.to_string()), Ok(()));
}

#[test]
fn kernels_run_where_the_device_can_serve_them() {
    let on = |kind, processor| Choice { kind, reason: Reason::Asked, processor }.processor(0);
    for kind in Kind::ALL {
        assert!(matches!(on(kind, Some(ProcessorKind::Cpu)), Ok((Processor::Cpu(_), None))));
    }
    assert!(matches!(on(Kind::Hw, None), Ok((Processor::Cpu(_), Some(_)))));
    assert!(matches!(on(Kind::Hw, Some(ProcessorKind::Gpu)), Err(ChoiceError::NoKernels)));
}

#[test]
fn nvlink_says_what_is_missing() {
    let why = |gpus| joined(&gpus).unwrap_err();
    assert!(why(Err(NoGpu::NotInstalled)).contains("libcuda.so.1"));
    assert!(why(Ok(Vec::new())).starts_with("there is no GPU; GGAS_PROCESSOR=cpu"));
    let gpu = |ordinal, access| GpuInfo {
        ordinal,
        peers: vec![ggas_gpu::Peer { access, ..Default::default() }; 2],
        ..some_gpu()
    };
    assert!(why(Ok(vec![gpu(0, false), gpu(1, false)])).contains("the memory of another"));
    assert!(joined(&Ok(vec![gpu(0, true), gpu(1, true)])).is_ok());
    assert!(joined(&Ok(vec![gpu(0, false)])).is_ok());
}

fn some_gpu() -> GpuInfo {
    GpuInfo {
        ordinal: 0,
        name: String::new(),
        uuid: String::new(),
        pci: String::new(),
        sm: (9, 0),
        multiprocessors: 1,
        memory: 1 << 30,
        shared_of_multiprocessor: 228 << 10,
        shared_reserved: 1 << 10,
        driver: (13, 0),
        maps_host_memory: true,
        host_pointers_are_device_pointers: true,
        virtual_memory: true,
        posix_handles: true,
        cooperative_launch: true,
        host_atomics: true,
        dma_buf: true,
        peers: Vec::new(),
    }
}
