//! Sequences are created, changed, exported, owned and dropped, by those who may.

mod alterations;
mod attacks;
mod catalog_closed;
mod define_and_serve;
mod document;
mod inserters;
mod keys;
mod layout;
mod names;
mod other_version;
mod own_schema;
mod ownership;
mod privileges;
mod privileges_of_many;
mod schema_owner;
mod settings;
mod triggers;
mod upgrade;
