//! Telling cards that there is work for them.

/// Someone who wants to hear of news. A fabric holds one for each attached node.
pub trait Wake: Send + Sync {
    /// Packets or link work arrived. Cheap, never blocks, never runs the receiver's work inside the call, so it
    /// may be called under locks.
    fn wake(&self);
    /// Wakes whoever sleeps until the receiver tells of news, though there may be none for them.
    fn rouse(&self) {}
    /// As [`Wake::wake`], and the receiver's work is done on this thread, which holds no locks. Returns whether anything
    /// moved.
    fn run(&self) -> bool {
        self.wake();
        false
    }
}
