//! Everything that the documents, the examples and the repository say of themselves is true.

mod clients;
mod contributing;
mod distribution;
mod faq;
mod harness;
mod install;
mod migrating;
mod pages;
mod releases;
mod tools;
mod tour;
