//! `hilo_export`: what a document says of the sequences that exist.

use pgrx::pg_sys;

use hilo_core::document::{Described, Document, Grant, VERSION};
use hilo_core::summary::{Node, Numbering};

use crate::catalog::column_ref::ColumnRef;
use crate::catalog::definitions::{self, Sequence};
use crate::catalog::node::{self, Here};
use crate::catalog::privileges::{self, Privileges};
use crate::catalog::{missing, numbering, positions, roles};
use crate::errors::{HiloError, OrRaise};
use crate::gucs;
use crate::process::ffi;
use crate::process::memory::{self, TryGrow};
use crate::shared;
use crate::sql::call::args::{Args, sql_functions};
use crate::sql::draw::nextval;
use crate::sql::node::json::{utf8, write};

sql_functions!(hilo_export, hilo_node_summary);

/// `hilo_export(name)`: the definition of a sequence or, without a name, of all that the caller may
/// read.
fn hilo_export(args: Args) -> pg_sys::Datum {
    let sequences = memory::try_collect(choose(args).iter().map(describe)).or_raise();
    write(&Document { hilo: VERSION, node: None, sequences }).or_raise()
}

/// `hilo_node_summary(name)`: the same, with which node this is and how it numbers each sequence. A
/// sequence that does not exist is left out.
fn hilo_node_summary(args: Args) -> pg_sys::Datum {
    let named = args.datum(0).is_some();
    let sequences = match named && definitions::by_name(args.name(0)).or_raise().is_none() {
        true => Vec::new(),
        false => choose(args),
    };
    write(&summary(&sequences).or_raise()).or_raise()
}

/// The sequence that the first argument names, or all that the caller may read, by name.
fn choose(args: Args) -> Vec<Sequence> {
    let mut sequences = match args.datum(0) {
        Some(_) => vec![find_readable(args.name(0)).or_raise()],
        None => readable().or_raise(),
    };
    sequences.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    sequences
}

/// All that other nodes need to know of this one.
pub fn summary(sequences: &[Sequence]) -> Result<Document, HiloError> {
    let id = node::id();
    let numbered = |sequence: &Sequence| -> Result<Described, HiloError> {
        Ok(Described { numbering: numbering(sequence, id)?, ..describe(sequence) })
    };
    let mut all = Vec::new();
    for sequence in sequences {
        all.try_push(numbered(sequence)?)?;
    }
    let node = Node { id, count: gucs::node_count(), server: server() };
    Ok(Document { hilo: VERSION, node: Some(node), sequences: all })
}

/// A name that tells this server from all others, as long as it runs. Its system identifier would
/// not: copies share that.
pub fn server() -> String {
    shared::get().map_or(positions::server().0, |shared| shared.life()).to_string()
}

/// How `node`, this server, numbers a sequence or, if it has not served it yet, will number it.
/// `None`: it refuses to serve it.
pub fn numbering(sequence: &Sequence, node: i32) -> Result<Option<Numbering>, HiloError> {
    let joined = || numbering::join(sequence, &Here::read()?);
    let position = match positions::find(sequence.id, node)? {
        None => joined().ok(),
        found => found,
    };
    Ok(position.map(|position| Numbering {
        base: position.base,
        nodes: position.nodes,
        stripe: position.stripe,
        reserved_to: position.last_value(&sequence.definition),
    }))
}

fn find_readable(name: &[u8]) -> Result<Sequence, HiloError> {
    let sequence = missing::require(name)?;
    if !privileges::may_see(&sequence, ffi::current_user())? {
        nextval::allow(&sequence, Privileges::ALL)?;
    }
    Ok(sequence)
}

/// The sequences that view hilo_sequences shows to the current user.
pub fn readable() -> Result<Vec<Sequence>, HiloError> {
    let user = ffi::current_user();
    definitions::collect(|one| privileges::may_see(&one, user).or_raise().then_some(one))
}

/// All that a document says of a sequence. A role that does not exist any more is left out.
pub fn describe(sequence: &Sequence) -> Described {
    let mut grants: Vec<Grant> = Vec::new();
    for (grantee, held) in privileges::grants_on(sequence.id).or_raise() {
        if let Some(grantee) = role_name(grantee) {
            grants.try_push(Grant { grantee, privileges: privilege_names(held) }).or_raise();
        }
    }
    grants.sort_unstable_by(|a, b| a.grantee.cmp(&b.grantee));
    let mut definition = sequence.definition.clone();
    // Only who may act as the owner sees what runs as the owner.
    if !privileges::acts_as(ffi::current_user(), sequence.owner) {
        (definition.source, definition.reserve_ahead) = (None, None);
    }
    Described {
        owned_by: column_name(sequence.owned_by),
        owner: role_name(sequence.owner),
        privileges: Some(grants),
        ..Described::of(utf8(&sequence.name), &definition)
    }
}

/// The privileges of a set, as a document lists them.
pub fn privilege_names(set: Privileges) -> Vec<String> {
    set.names().map(str::to_owned).collect()
}

/// The name of a role, or `public`; `None` if the role does not exist.
pub fn role_name(role: pg_sys::Oid) -> Option<String> {
    if role == roles::PUBLIC {
        return Some("public".into());
    }
    roles::name(role).map(|name| utf8(name.to_bytes()))
}

/// The column that owns a sequence, if any, as a document has it.
pub fn column_name(column: Option<ColumnRef>) -> Option<String> {
    column.and_then(ColumnRef::text).map(|text| utf8(text.to_bytes()))
}
