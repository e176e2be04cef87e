//! State of VPIDs in use: most of the 256 never are.

/// One `T` for each VPID, made on first use.
pub(super) struct PerVpid<T>(Box<[Option<Box<T>>]>);

impl<T> Default for PerVpid<T> {
    fn default() -> Self {
        PerVpid((0..256).map(|_| None).collect())
    }
}

impl<T> PerVpid<T> {
    /// What there is.
    #[inline]
    pub(super) fn get(&self, vpid: u8) -> Option<&T> {
        self.0[usize::from(vpid)].as_deref()
    }

    /// What there is, to change it.
    #[inline]
    pub(super) fn get_mut(&mut self, vpid: u8) -> Option<&mut T> {
        self.0[usize::from(vpid)].as_deref_mut()
    }
}

impl<T: Default> PerVpid<T> {
    /// What there is, made now if there is nothing.
    #[inline]
    pub(super) fn at(&mut self, vpid: u8) -> &mut T {
        self.0[usize::from(vpid)].get_or_insert_default()
    }
}
