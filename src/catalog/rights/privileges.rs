//! Who may do what with a sequence: its owner may do everything, other roles what
//! `_hilo.hilo_privilege` and core's predefined roles allow.

use std::collections::HashMap;

use pgrx::pg_sys;

use hilo_core::document::Privilege;
use hilo_core::numbers::SequenceId;

use crate::advice::literal;
use crate::catalog::rights::insert_rights;
use crate::catalog::rows::catalog_tables::{self, CatalogTable, catalog_oids};
use crate::catalog::rows::columns::privilege as column;
use crate::catalog::rows::name::escape_for_message;
use crate::catalog::rows::roles::{self, PUBLIC};
use crate::catalog::rows::scan::Match;
use crate::catalog::rows::table::next_command;
use crate::catalog::sequence::definitions::{self, Sequence};
use crate::errors::HiloError;
use crate::process::ffi;
use crate::process::memory::TryGrow;
use crate::shared::shared_name::SharedName;

/// A set of privileges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privileges(u8);

impl Privileges {
    pub const NONE: Privileges = Privileges(0);
    pub const USAGE: Privileges = Privileges(1);
    pub const SELECT: Privileges = Privileges(2);
    pub const UPDATE: Privileges = Privileges(4);
    /// The right to take leases, and so to give values to other servers.
    pub const LEASE: Privileges = Privileges(16);
    pub const ALL: Privileges = Self::USAGE.or(Self::SELECT).or(Self::UPDATE).or(Self::LEASE);
    /// The right to insert into the table of the column that owns the sequence. It is not granted
    /// here, and allows drawing only.
    pub const INSERT: Privileges = Privileges(8);
    /// The privileges that allow drawing; a caller needs one of them.
    pub const DRAW: Privileges = Self::USAGE.or(Self::UPDATE).or(Self::INSERT);
    /// The privileges that allow a lease.
    pub const TAKE_LEASE: Privileges = Self::UPDATE.or(Self::LEASE);

    pub const fn or(self, other: Privileges) -> Privileges {
        Privileges(self.0 | other.0)
    }

    /// The set as a number, for shared memory.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The set that [`bits`](Self::bits) has made a number.
    pub const fn from_bits(bits: u8) -> Privileges {
        Privileges(bits)
    }

    /// The set without the privileges of `others`.
    pub const fn without(self, others: Privileges) -> Privileges {
        Privileges(self.0 & !others.0)
    }

    /// Whether the set has one of `others`.
    #[inline(always)]
    pub const fn any_of(self, others: Privileges) -> bool {
        self.0 & others.0 != 0
    }

    /// The privilege of this name, in upper case as the catalog keeps it.
    pub fn by_name(name: &str) -> Option<Privileges> {
        match name {
            "ALL" | "ALL PRIVILEGES" => Some(Self::ALL),
            _ => Privilege::by_name(name).map(Privileges::from),
        }
    }

    /// The privileges in a list such as `USAGE, select`.
    ///
    /// # Errors
    /// `NoSuchPrivilege` for the first that does not exist.
    pub fn parse_list(list: &str) -> Result<Privileges, HiloError> {
        list.split(',').try_fold(Self::NONE, |set, name| {
            let name = name.trim();
            match Self::by_name(&name.to_ascii_uppercase()) {
                Some(privilege) => Ok(set.or(privilege)),
                None => Err(HiloError::NoSuchPrivilege(name.to_owned())),
            }
        })
    }

    /// The privileges in the set.
    pub fn each(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.iter().copied().filter(move |one| self.any_of((*one).into()))
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.each().map(Privilege::name)
    }

    /// For an error's DETAIL.
    pub const fn alternatives(self) -> &'static str {
        match self.0 {
            1 => "USAGE",
            2 => "SELECT",
            4 => "UPDATE",
            3 => "USAGE or SELECT",
            5 => "USAGE or UPDATE",
            13 => "USAGE or UPDATE, or INSERT on the table whose column owns the sequence",
            20 => "UPDATE or LEASE",
            23 => "USAGE, SELECT, UPDATE or LEASE",
            _ => "a privilege",
        }
    }

    /// The privilege to ask for where any of the set is enough: the one that allows least.
    const fn least(self) -> &'static str {
        match self.0 {
            4 => "UPDATE",
            20 => "LEASE",
            2 | 23 => "SELECT",
            _ => "USAGE",
        }
    }
}

impl From<Privilege> for Privileges {
    fn from(privilege: Privilege) -> Privileges {
        match privilege {
            Privilege::Usage => Self::USAGE,
            Privilege::Select => Self::SELECT,
            Privilege::Update => Self::UPDATE,
            Privilege::Lease => Self::LEASE,
        }
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(privileges: I) -> Privileges {
        privileges.into_iter().map(Privileges::from).fold(Privileges::NONE, Privileges::or)
    }
}

/// The error for the current user, who has only the privileges `held` where one of `required` is
/// needed.
pub fn denial(name: &[u8], required: Privileges, held: Privileges) -> HiloError {
    let held: Vec<_> = held.names().collect();
    let held = match held.is_empty() {
        true => "no privilege".into(),
        false => format!("only {}", held.join(" and ")),
    };
    let (name, user) = (escape_for_message(name), roles::name_of(ffi::current_user()));
    let (to_whom, least) = (literal(&user), required.least());
    let grant = format!("SELECT hilo_grant({}, {to_whom}, '{least}');", literal(&name));
    HiloError::Permission { name, user, held, required: required.alternatives(), grant }
}

/// Whether `user` has the rights of `role`: is that role, inherits from it, or is a superuser.
pub fn acts_as(user: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: looks up the system catalogs, inside a transaction, and takes any OID.
    unsafe { pg_sys::has_privs_of_role(user, role) }
}

/// The name of a sequence's owner, unless the current user has the owner's rights.
pub fn other_owner(id: SequenceId) -> Result<Option<String>, HiloError> {
    let owner = definitions::by_id(id)?.map(|sequence| sequence.owner);
    let other = owner.filter(|owner| !acts_as(ffi::current_user(), *owner));
    Ok(other.map(roles::name_of))
}

/// The privileges that core's predefined roles give `user` on every sequence.
fn of_all(user: pg_sys::Oid) -> Privileges {
    let has = |role: u32, privilege| match acts_as(user, pg_sys::Oid::from_u32(role)) {
        true => privilege,
        false => Privileges::NONE,
    };
    has(pg_sys::ROLE_PG_READ_ALL_DATA, Privileges::SELECT)
        .or(has(pg_sys::ROLE_PG_WRITE_ALL_DATA, Privileges::UPDATE))
}

/// The privileges that `user` has on every sequence, and by these grants on one.
fn by_grants(
    user: pg_sys::Oid,
    granted: impl Iterator<Item = (pg_sys::Oid, Privileges)>,
) -> Privileges {
    granted
        .filter(|(grantee, _)| *grantee == PUBLIC || acts_as(user, *grantee))
        .fold(of_all(user), |held, (_, set)| held.or(set))
}

/// The privileges of a user on a sequence, with the grants behind them.
pub struct HeldPrivileges {
    pub privileges: Privileges,
    /// The grants, by grantee. `None`: they were not read, because the user owns the sequence.
    pub granted: Option<Vec<(pg_sys::Oid, Privileges)>>,
}

impl HeldPrivileges {
    pub fn read(sequence: &Sequence, user: pg_sys::Oid) -> Result<HeldPrivileges, HiloError> {
        if acts_as(user, sequence.owner) {
            return Ok(HeldPrivileges { privileges: Privileges::ALL, granted: None });
        }
        let granted = grants_on(sequence.id)?;
        let privileges = by_grants(user, granted.iter().copied());
        Ok(HeldPrivileges { privileges, granted: Some(granted) })
    }

    /// Adds the right to draw that follows from INSERT on the owning table.
    pub fn with_inserts(
        &self,
        sequence: &Sequence,
        user: pg_sys::Oid,
    ) -> Result<Privileges, HiloError> {
        Ok(match sequence.owned_by {
            Some(column)
                if !self.privileges.any_of(Privileges::DRAW)
                    && insert_rights::may_insert(column, user)? =>
            {
                self.privileges.or(Privileges::INSERT)
            }
            _ => self.privileges,
        })
    }
}

/// The privileges of `user` on `sequence`.
pub fn held_by(sequence: &Sequence, user: pg_sys::Oid) -> Result<Privileges, HiloError> {
    Ok(HeldPrivileges::read(sequence, user)?.privileges)
}

/// The privileges of `user` by a shared name. `None`: it does not list the grants, and the user is
/// not the owner.
pub fn of_shared_name(shared_name: &SharedName, user: pg_sys::Oid) -> Option<Privileges> {
    if acts_as(user, pg_sys::Oid::from_u32(shared_name.owner())) {
        return Some(Privileges::ALL);
    }
    let granted = shared_name.grants()?.iter();
    let granted =
        granted.map(|(role, bits)| (pg_sys::Oid::from_u32(*role), Privileges::from_bits(*bits)));
    Some(by_grants(user, granted))
}

/// Checks that the current user has one of `needs`.
pub fn allow(sequence: &Sequence, needs: Privileges) -> Result<(), HiloError> {
    let held = held_by(sequence, ffi::current_user())?;
    if held.any_of(needs) {
        return Ok(());
    }
    Err(denial(&sequence.name, needs, held))
}

/// Checks that the views show the sequence to the current user.
pub fn allow_to_see(sequence: &Sequence) -> Result<(), HiloError> {
    match may_see(sequence, ffi::current_user())? {
        true => Ok(()),
        false => allow(sequence, Privileges::ALL),
    }
}

/// Whether the views show `sequence` to `user`.
pub fn may_see(sequence: &Sequence, user: pg_sys::Oid) -> Result<bool, HiloError> {
    Ok(held_by(sequence, user)? != Privileges::NONE || reads_all(user))
}

/// Whether the views show a sequence, on which this was granted, to the current user.
pub fn shows(sequence: &Sequence, granted: &[(pg_sys::Oid, Privileges)]) -> bool {
    let user = ffi::current_user();
    acts_as(user, sequence.owner)
        || by_grants(user, granted.iter().copied()) != Privileges::NONE
        || reads_all(user)
}

/// Whether the views show every sequence to `user`.
pub fn reads_all(user: pg_sys::Oid) -> bool {
    let stats = pg_sys::Oid::from_u32(pg_sys::ROLE_PG_READ_ALL_STATS);
    of_all(user) != Privileges::NONE || acts_as(user, stats)
}

/// The privileges that were granted on a sequence, by grantee.
pub fn grants_on(sequence: SequenceId) -> Result<Vec<(pg_sys::Oid, Privileges)>, HiloError> {
    let mut granted = Vec::new();
    scan_grants(Match::Int8(sequence.0), |_, to, privilege| add(&mut granted, to, privilege))?;
    Ok(granted)
}

/// The grants on each of these sequences that has some.
pub fn grants_on_all(
    sequences: &[i64],
) -> Result<HashMap<SequenceId, Vec<(pg_sys::Oid, Privileges)>>, HiloError> {
    let mut all: HashMap<_, Vec<_>> = HashMap::new();
    scan_grants(Match::Int8In(sequences), |sequence, to, privilege| {
        all.try_reserve(1).map_err(|_| HiloError::OutOfMemory)?;
        add(all.entry(sequence).or_default(), to, privilege)
    })?;
    Ok(all)
}

/// Visits the privileges on sequences. They are sorted by sequence and grantee.
fn scan_grants(
    sequences: Match,
    mut visit: impl FnMut(SequenceId, pg_sys::Oid, Privileges) -> Result<(), HiloError>,
) -> Result<(), HiloError> {
    CatalogTable::Privilege.read()?.scan(
        catalog_tables::PRIVILEGE_PKEY,
        &[(column::SEQUENCE, sequences)],
        |row| {
            let name = row.text(column::PRIVILEGE).unwrap_or_default();
            let privilege = Privileges::by_name(&name).unwrap_or(Privileges::NONE);
            visit(SequenceId(row.int8(column::SEQUENCE)), row.oid(column::GRANTEE), privilege)?;
            Ok(true)
        },
    )
}

fn add(
    granted: &mut Vec<(pg_sys::Oid, Privileges)>,
    to: pg_sys::Oid,
    privilege: Privileges,
) -> Result<(), HiloError> {
    match granted.last_mut().filter(|(last, _)| *last == to) {
        Some((_, held)) => *held = held.or(privilege),
        None => granted.try_push((to, privilege))?,
    }
    Ok(())
}

/// Gives `grantee` those privileges of `set` that it does not have yet.
pub fn grant(sequence: &Sequence, grantee: pg_sys::Oid, set: Privileges) -> Result<(), HiloError> {
    roles::depend_on(grantee)?;
    let table = CatalogTable::Privilege.write()?;
    for name in set.names() {
        let keys = keys(sequence.id, grantee, name);
        table.ensure(catalog_tables::PRIVILEGE_PKEY, &keys, &[Some(sequence.owner.into())]);
    }
    next_command();
    Ok(())
}

/// Whether a privilege is recorded for exactly this grantee.
pub fn is_recorded(id: SequenceId, to: pg_sys::Oid, privilege: &str) -> Result<bool, HiloError> {
    let found = CatalogTable::Privilege
        .read()?
        .find(catalog_tables::PRIVILEGE_PKEY, &keys(id, to, privilege));
    Ok(found.is_some())
}

/// Takes privileges from `grantee`.
pub fn revoke(sequence: &Sequence, grantee: pg_sys::Oid, set: Privileges) -> Result<(), HiloError> {
    let table = CatalogTable::Privilege.write()?;
    for name in set.names() {
        table.delete_all(catalog_tables::PRIVILEGE_PKEY, &keys(sequence.id, grantee, name));
    }
    next_command();
    Ok(())
}

/// Adapts the privileges of a sequence to its new owner. The rows of the new owner are deleted,
/// because an owner needs none. So are those of the old owner, which were part of its ownership.
/// Grants of the old owner to others count as the new one's.
pub fn change_owner(
    sequence: SequenceId,
    old: pg_sys::Oid,
    new: pg_sys::Oid,
) -> Result<(), HiloError> {
    let table = CatalogTable::Privilege.write()?;
    let key = [(column::SEQUENCE, Match::Int8(sequence.0))];
    table.scan(catalog_tables::PRIVILEGE_PKEY, &key, |row| {
        if [old, new].contains(&row.oid(column::GRANTEE)) {
            table.delete(&row);
        } else if row.oid(column::GRANTOR) == old {
            table.change(&row, &[(column::GRANTOR, Some(new.into()))]);
        }
        Ok(true)
    })?;
    next_command();
    Ok(())
}

fn keys(id: SequenceId, grantee: pg_sys::Oid, name: &str) -> [(i16, Match<'_>); 3] {
    [
        (column::SEQUENCE, Match::Int8(id.0)),
        (column::GRANTEE, Match::Oid(grantee)),
        (column::PRIVILEGE, Match::Text(name.as_bytes())),
    ]
}

/// Checks that the current user may create sequences.
pub fn may_create() -> Result<(), HiloError> {
    may_have_own(ffi::current_user())
}

/// Checks that `user` may own sequences, which takes INSERT on the view `hilo_sequences`. CREATE on
/// a schema would be the right to put functions there that others call by mistake.
pub fn may_have_own(user: pg_sys::Oid) -> Result<(), HiloError> {
    if roles::may_insert(user, catalog_oids()?.sequences) {
        return Ok(());
    }
    let schema = String::from_utf8_lossy(&catalog_tables::schema_identifier()?).into_owned();
    let user = roles::identifier(user).unwrap_or_default().to_string_lossy().into_owned();
    Err(HiloError::NoCreate { schema, user })
}
