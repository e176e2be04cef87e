//! Whether stores to a rank may overtake what went there through the card.

/// Short requests in a row after which a rank is asked whether all has arrived: who mixes them with long ones would ask in vain.
const SHORTS: u32 = 8;

/// Of one rank. What goes through the card arrives in the order of the posts, so a get behind it (the probe) tells when it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// Something may not have arrived.
    sent: bool,
    /// Short requests since the last long one.
    shorts: u32,
    /// A probe is under way; `true`: nothing was sent behind it.
    probe: Option<bool>,
}

impl Order {
    /// Whether all that was sent has arrived.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        !self.sent
    }

    /// Whether a probe may have come back.
    pub(crate) fn is_probed(&self) -> bool {
        self.probe.is_some()
    }

    /// A request goes through the card; `true`: a probe should follow, as [`probing`](Self::probing) is told.
    pub(crate) fn sends(&mut self, is_short: bool) -> bool {
        self.sent = true;
        self.shorts = if is_short { self.shorts + 1 } else { 0 };
        self.probe = self.probe.map(|_| false);
        self.shorts >= SHORTS && self.probe.is_none()
    }

    pub(crate) fn probing(&mut self) {
        self.probe = Some(true);
    }

    /// The probe is back, or lost.
    pub(crate) fn probed(&mut self, is_error: bool) {
        if self.probe.take() == Some(true) && !is_error {
            (self.sent, self.shorts) = (false, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_probe_behind_everything_settles() {
        let mut order = Order::default();
        assert!(order.is_settled());
        assert!(!order.sends(false));
        assert!((1..SHORTS).all(|_| !order.sends(true)));
        assert!(order.sends(true) && !order.is_settled());
        order.probing();
        assert!(!order.sends(true), "one at a time");
        order.probed(false);
        assert!(!order.is_settled(), "something came behind it");
        assert!(order.sends(true));
        order.probing();
        order.probed(true);
        assert!(!order.is_settled() && order.sends(true), "it failed");
        order.probing();
        order.probed(false);
        assert!(order.is_settled());
        assert!(!order.sends(true), "counted anew");
    }
}
