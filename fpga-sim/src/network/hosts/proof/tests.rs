use super::*;

const SECRET: [u8; 16] = [7; 16];

fn pair() -> (Talk, Talk) {
    (Talk::new(SECRET, Side::Caller), Talk::new(SECRET, Side::Called))
}

fn heard(talk: &mut Talk, frame: &[u8]) -> Option<Vec<u8>> {
    talk.hear(&mut frame.to_vec()).ok().flatten()
}

#[test]
fn both_hear_what_was_said() {
    let (mut caller, mut called) = pair();
    let hello = Hello { from: 1, to: 2, answer: Answer::Come, incarnation: 99 };
    let frame = caller.say(&hello.bytes(5)).unwrap();
    assert_eq!(Hello::of(&heard(&mut called, &frame).unwrap()).unwrap(), hello);
    let papers = Papers { ticket: 5, provider: "tcp".to_owned(), address: vec![7; 4096] };
    let frame = called.say(&papers.bytes()).unwrap();
    assert_eq!(Papers::of(&heard(&mut caller, &frame).unwrap()).unwrap(), papers);
}

/// After their meeting both speak at once, and what they say comes in pieces.
#[test]
fn after_five_frames_nobody_waits_for_his_turn() {
    let (mut caller, mut called) = pair();
    let challenge = called.say(&Challenge::bytes(1)).unwrap();
    assert!(Challenge::check(&heard(&mut caller, &challenge).unwrap()).is_ok());
    for said in [&b"a"[..], b"bc", b"d"] {
        for byte in said {
            let (from, to) =
                if said.len() == 1 { (&mut caller, &mut called) } else { (&mut called, &mut caller) };
            let frame = from.say(&[*byte]).unwrap();
            assert_eq!(heard(to, &frame), Some(vec![*byte]));
        }
    }
    let beats = [false, true].map(|came| Word::Beat { came });
    let words = [beats[0], Word::Goodbye { sent: [1, u32::MAX], taken: [3, 4] }, beats[1], Word::Farewell];
    let say = |talk: &mut Talk| words.map(|word| talk.say(&word.bytes()).unwrap()).concat();
    let crossing = [say(&mut caller), say(&mut called)];
    for (talk, frames) in [&mut called, &mut caller].into_iter().zip(&crossing) {
        let (mut came, mut all) = (Vec::new(), Vec::new());
        for byte in frames {
            came.push(*byte);
            all.extend(talk.hear(&mut came).unwrap().map(|body| Word::of(&body).unwrap()));
        }
        assert_eq!(all, words);
    }
    // Said again, or left out, a frame does not fit.
    let (one, two) = (caller.say(b"1").unwrap(), caller.say(b"2").unwrap());
    assert!(heard(&mut called, &two).is_none() && heard(&mut called, &one).is_some());
    assert!(heard(&mut called, &one).is_none());
}

#[test]
fn who_has_another_secret_is_not_heard() {
    let frame = Talk::new([8; 16], Side::Caller).say(b"hello").unwrap();
    assert!(pair().1.hear(&mut frame.clone()).is_err());
}

/// Frames of another meeting, or of the other side, or in another order, do not fit.
#[test]
fn what_was_recorded_is_of_no_use() {
    let mut caller = pair().0;
    let (first, second) = (caller.say(b"first").unwrap(), caller.say(b"second").unwrap());
    assert!(heard(&mut pair().1, &second).is_none(), "out of order");
    assert!(heard(&mut pair().0, &first).is_none(), "of the own side");
    let mut called = pair().1;
    assert!(heard(&mut called, &first).is_some());
    called.say(&random().unwrap().to_le_bytes()).unwrap();
    assert!(heard(&mut called, &second).is_none(), "of another meeting");
}

/// Not even what a call said first, as long as no process is called twice with one number.
#[test]
fn no_call_is_made_twice() {
    let (mut caller, mut called) = pair();
    let challenge = called.say(&Challenge::bytes(random().unwrap())).unwrap();
    assert!(heard(&mut caller, &challenge).is_some());
    let hello = caller.say(b"hello").unwrap();
    let mut again = pair().1;
    again.say(&Challenge::bytes(random().unwrap())).unwrap();
    assert!(heard(&mut again, &hello).is_none() && heard(&mut called, &hello).is_some());
}

#[test]
fn another_version_or_order_of_bytes_is_named() {
    let right = Hello { from: 1, to: 2, answer: Answer::Come, incarnation: 99 }.bytes(5);
    let (mut newer, mut turned) = (right.clone(), right.clone());
    newer[MAGIC.len()] = 77;
    turned.swap(MAGIC.len() + 4, MAGIC.len() + 5);
    let parts = [format!("hosts 77, and this one {VERSION})"), "install the same".to_owned()];
    let order = ["in another order".to_owned(), "have to have the same".to_owned()];
    for (bytes, parts) in [(newer, parts), (turned, order)] {
        // Also of who says it under codes of its own.
        let foreign = [&(bytes.len() as u16).to_le_bytes()[..], &bytes, &[9; CODE]].concat();
        let said = [
            Hello::of(&bytes).unwrap_err(),
            Challenge::check(&bytes).unwrap_err(),
            pair().1.hear(&mut foreign.clone()).unwrap_err(),
        ];
        for said in said {
            assert_eq!(said.kind(), io::ErrorKind::Unsupported);
            let said = said.to_string();
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
    }
    assert!(Hello::of(&right).is_ok() && Challenge::check(&right).is_ok());
}

#[test]
fn garbage_is_refused() {
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100], &[0; 100]] {
        assert!(pair().1.hear(&mut garbage.to_vec()).is_err());
    }
    assert!(Hello::of(b"ggashos").is_err() && Hello::of(b"ggashost\x02\0\0\0").is_err());
    assert!(Papers::of(&[0; 9]).is_err() && Papers::of(&[0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1]).is_err());
    assert!(
        Word::of(&[]).is_err()
            && Word::of(&[0]).is_err()
            && Word::of(&[1; 16]).is_err()
            && Word::of(&[3]).is_err()
    );
}

/// It has a place of its own in the conversation, and is of the secret and of this version.
#[test]
fn a_pass_is_nothing_else() {
    let mut came = pass(SECRET).unwrap();
    let rest = came.split_off(10);
    assert!(!take_pass(SECRET, &mut came).unwrap(), "not whole");
    came.extend(rest);
    assert!(
        heard(
            &mut {
                let mut called = pair().1;
                called.say(b"challenge").unwrap();
                called
            },
            &came
        )
        .is_none()
    );
    came.extend(b"more");
    assert!(take_pass(SECRET, &mut came).unwrap());
    assert_eq!(came, b"more");
    assert!(take_pass([8; 16], &mut pass(SECRET).unwrap()).is_err());
    assert!(take_pass(SECRET, &mut b"GET / HTTP/1.1\r\n\r\n".to_vec()).is_err());
}
