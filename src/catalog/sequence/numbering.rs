//! Which numbers the nodes serve. The nodes take a sequence's stripes in turn, from its base on. So
//! all of them must have the same base, number of nodes and stripe. Each keeps these in its own row
//! of `_hilo.hilo_position`.
//!
//! All that a node knows of the others is the rows that replication has brought, if any. If these
//! show that values could be served twice, a change is refused.

use hilo_core::direction::Direction;
pub use hilo_core::document::Numbering;
use hilo_core::numbers::Epoch;
use hilo_core::options::Definition;

use crate::catalog::rows::name::escape_for_message;
use crate::catalog::sequence::definitions::Sequence;
use crate::catalog::sequence::node::LocalNode;
use crate::catalog::sequence::positions::{self, Position};
use crate::catalog::sequence::{node, takeover};
use crate::errors::HiloError;
use crate::gucs;
use crate::process::memory;

impl Position {
    pub fn numbering(&self) -> Numbering {
        Numbering { base: self.base, nodes: self.nodes, stripe: self.stripe }
    }

    /// The last value that this node has reserved, or the bound if that value cannot be computed;
    /// `None`: the node has reserved nothing.
    fn reach(&self, definition: &Definition) -> Option<i64> {
        self.has_reserved().then(|| self.last_value(definition).unwrap_or(definition.last_bound()))
    }

    /// The furthest value of this node, if the node has reserved a value at or beyond `base`, in
    /// the direction of the numbers.
    fn furthest_reserved(
        &self,
        definition: &Definition,
        base: i64,
        direction: Direction,
    ) -> Option<i64> {
        // The node was set to a base beyond `base`, and has not reserved from it since.
        let beyond = direction.is_beyond(self.base, base);
        if !self.has_reserved() && self.epoch > Epoch(1) && beyond {
            return Some(self.base);
        }
        let reach = direction.further(self.reach(definition)?, self.base);
        (!direction.is_beyond(base, reach)).then_some(reach)
    }
}

/// The position at which this server begins if it has none: it adopts the numbering with the
/// furthest base. The session that creates a sequence gives it a position. So another one exists,
/// unless replication has brought the definition without positions, or before them.
///
/// # Errors
/// `NoPosition` if no other position is known; `NodeUnset`, `NotAmongNodes` and `Reserved` as for
/// [`begin_with`].
pub fn join(sequence: &Sequence, here: &LocalNode) -> Result<Position, HiloError> {
    let direction = sequence.definition.direction();
    let others = positions::of_all_nodes(sequence.id)?;
    let furthest = others.iter().max_by_key(|other| {
        let base = match direction {
            Direction::Ascending => other.base as i128,
            Direction::Descending => -(other.base as i128),
        };
        (base, other.nodes)
    });
    let Some(&Position { base, nodes, stripe, .. }) = furthest else {
        return Err(HiloError::NoPosition(sequence.name.to_string()));
    };
    first_position(sequence, here, &others, Numbering { base, nodes, stripe })
}

/// The position of this server as `node`. Without one, the position at which it begins, or `None`
/// if it refuses to begin.
pub fn found_or_joined(sequence: &Sequence, node: i32) -> Result<Option<Position>, HiloError> {
    Ok(match positions::find(sequence.id, node)? {
        None => LocalNode::read().and_then(|here| join(sequence, &here)).ok(),
        found => found,
    })
}

/// The position at which this server begins with the numbering of another node. `None`: it is not
/// told. Where replication brings the rows, they say how to begin, though the row of this server's
/// own id may be yet to come.
///
/// # Errors
/// The errors of [`node::serves`]. `NodeUnset`, `NotAmongNodes` if the numbering has no stripe for
/// this node. `Reserved` if a node, or this server as another node, has reserved beyond the base
/// under another numbering.
pub fn begin_with(
    sequence: &Sequence,
    numbering: Numbering,
) -> Result<Option<Position>, HiloError> {
    let known = positions::of_all_nodes(sequence.id)?;
    if known.is_empty() || known.iter().any(Position::is_replicated) {
        return Ok(None);
    }
    let here = node::serves(sequence)?;
    let known = memory::try_collect(known.iter().map(|other| takeover::at_most(sequence, other)))?;
    first_position(sequence, &here, &known, numbering).map(Some)
}

fn first_position(
    sequence: &Sequence,
    here: &LocalNode,
    others: &[Position],
    numbering: Numbering,
) -> Result<Position, HiloError> {
    let Numbering { base, nodes, stripe } = numbering;
    if here.id >= nodes {
        let (name, id) = (sequence.name.to_string(), here.id);
        return Err(HiloError::NotAmongNodes { name, id, count: nodes });
    }
    node::check_set(nodes)?;
    check_others(sequence, others, numbering, sequence.definition.direction())?;
    Ok(Position { base, nodes, stripe, ..Position::first(sequence, here.id) })
}

/// The numbering from `base` on, with the current settings, for a sequence whose definition becomes
/// `new`. If several nodes serve the sequence, the base must lie beyond all values that any node is
/// known to have reserved. Nodes that already have this numbering do not count.
///
/// # Errors
/// The errors of [`node::serves`], `NodeUnset`, `Reserved`, `MovesAlone`.
pub fn starting_at(
    sequence: &Sequence,
    own: &Position,
    new: &Definition,
    base: i64,
) -> Result<Numbering, HiloError> {
    let here = LocalNode::read()?;
    here.check(new)?;
    let nodes = gucs::node_count();
    node::check_set(nodes)?;
    if new.gapless && nodes > 1 {
        return Err(HiloError::GaplessNodes { name: sequence.name.to_string(), nodes });
    }
    let others = positions::of_other_nodes(sequence.id, here.id)?;
    let same = others.iter().find(|other| other.base == base && other.nodes == nodes);
    let stripe = same.map_or_else(|| positions::stripe(new.block_size), |other| other.stripe);
    let numbering = Numbering { base, nodes, stripe };
    // A sequence that cycles does not promise unique values.
    if new.cycle || sequence.definition.cycle {
        return Ok(numbering);
    }
    let direction = new.direction();
    if nodes > 1 || own.nodes > 1 {
        check(sequence, own, base, direction)?;
    }
    check_others(sequence, &others, numbering, direction)?;
    // The last value that is left out, unless the sequence has reached it already.
    let reached = own.last_value(&sequence.definition);
    let beyond = |taken: &i64| reached.is_some_and(|last| direction.is_beyond(*taken, last));
    let taken = base.checked_sub(new.increment).filter(beyond);
    check_moves(sequence, nodes.max(own.nodes), taken)?;
    Ok(numbering)
}

/// Refuses to begin a numbering on one node of several: the others may have the sequence, and
/// number it differently.
///
/// # Errors
/// `BeginsAlone`
pub fn check_begins(name: &[u8], nodes: i32) -> Result<(), HiloError> {
    match nodes > 1 && !gucs::on_every_node() {
        true => Err(HiloError::BeginsAlone(escape_for_message(name))),
        false => Ok(()),
    }
}

/// Refuses to move or restart the numbers of a sequence on one node of several. The other nodes
/// would stay where they are, and reach the values that this one serves. `taken`: the last value
/// that is not to be served, if it is known.
///
/// # Errors
/// `MovesAlone`
pub fn check_moves(sequence: &Sequence, nodes: i32, taken: Option<i64>) -> Result<(), HiloError> {
    match nodes > 1 && !gucs::on_every_node() {
        true => Err(HiloError::MovesAlone { name: sequence.name.to_string(), taken }),
        false => Ok(()),
    }
}

fn check_others(
    sequence: &Sequence,
    others: &[Position],
    numbering: Numbering,
    direction: Direction,
) -> Result<(), HiloError> {
    let different = others.iter().filter(|other| other.numbering() != numbering);
    different.clone().try_for_each(|other| check(sequence, other, numbering.base, direction))
}

fn check(
    sequence: &Sequence,
    position: &Position,
    base: i64,
    direction: Direction,
) -> Result<(), HiloError> {
    match position.furthest_reserved(&sequence.definition, base, direction) {
        None => Ok(()),
        Some(value) => Err(HiloError::Reserved {
            name: sequence.name.to_string(),
            node: position.node,
            base,
            value,
        }),
    }
}
