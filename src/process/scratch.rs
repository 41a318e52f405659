//! A memory context for work in rounds, which is emptied after each of them.

use pgrx::memcxt::PgMemoryContexts;

pub struct Scratch(PgMemoryContexts);

impl Scratch {
    pub fn new(name: &'static str) -> Scratch {
        Scratch(PgMemoryContexts::new(name))
    }

    /// Does the work of a round, and frees the memory that it has pallocated.
    ///
    /// # Safety
    /// Nothing that is allocated in this memory is used after the round.
    pub unsafe fn round<T>(&mut self, work: impl FnOnce() -> T) -> T {
        // SAFETY: as the caller guarantees.
        unsafe {
            let done = self.0.switch_to(|_| work());
            self.0.reset();
            done
        }
    }
}
