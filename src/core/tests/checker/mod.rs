//! A model checker: it visits every state that the steps of a model can lead to.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model};

/// A model whose states can be searched by several threads and shown.
pub trait Searchable:
    Model<
        State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
        Action: Clone + Debug + PartialEq,
    > + Send
    + Sync
    + 'static
{
}

impl<M> Searchable for M where
    M: Model<
            State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
            Action: Clone + Debug + PartialEq,
        > + Send
        + Sync
        + 'static
{
}

/// Fails unless all promises hold in every state that there can be.
pub fn holds(model: impl Searchable) {
    let checker = model.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// Fails unless `promise` is found to be broken.
pub fn breaks(model: impl Searchable, promise: &'static str) {
    let found = HasDiscoveries::AllOf([promise].into());
    let checker = model.checker().threads(2).finish_when(found).spawn_bfs().join();
    checker.assert_any_discovery(promise);
}
