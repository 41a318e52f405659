//! Functions that a hostile role, mallory, has put where a call could find them.
//!
//! Each has the name and the shape of one of hilo's, with an argument of another type, one more,
//! one less, or a variadic one. Whoever else runs one leaves a line in the server's log, because an
//! error could be caught.

use postgres::Client;

use crate::client::ClientExt;
use crate::cluster::Cluster;

/// Begins the line that a planted function writes into the log.
const MARK: &str = "a planted function runs as";

/// The functions of the extension, and those of façades.
pub const OF_HILO: &str = "EXISTS (SELECT FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
      WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e' AND e.extname = 'hilo')";

/// A function of hilo's.
struct Function {
    name: String,
    names: Vec<String>,
    types: Vec<String>,
    /// Arguments that are only returned, as they are declared.
    out: Vec<String>,
    result: String,
    is_set: bool,
    defaults: usize,
}

/// Statements that plant, for the functions of this database that fulfil `condition`, others that a call could
/// prefer. `early`: the types of the extension do not exist there yet.
pub fn plants(model: &mut Client, condition: &str, early: bool) -> Vec<String> {
    let query = format!(
        "SELECT p.proname::text,
                ARRAY(SELECT coalesce(p.proargnames[u.at], '') FROM unnest(p.proargtypes) WITH ORDINALITY u (type, at) ORDER BY u.at),
                ARRAY(SELECT format_type(u.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY u (type, at) ORDER BY u.at),
                ARRAY(SELECT format('OUT %I %s', p.proargnames[u.at], format_type(u.type, NULL))
                        FROM unnest(p.proallargtypes) WITH ORDINALITY u (type, at) WHERE p.proargmodes[u.at] = 'o' ORDER BY u.at),
                pg_get_function_result(p.oid), p.proretset, p.pronargdefaults::integer
           FROM pg_proc p
          WHERE p.prokind = 'f' AND {condition}
            AND NOT EXISTS (SELECT FROM unnest(p.proargtypes || p.prorettype) t
                             WHERE t IN ('internal'::regtype, 'cstring'::regtype, 'trigger'::regtype))"
    );
    model.run("SET search_path = pg_catalog");
    let rows = model.query(&query, &[]).expect("the functions are found");
    model.run("RESET search_path");
    let functions = rows.iter().map(|row| Function {
        name: row.get(0),
        names: row.get(1),
        types: row.get(2),
        out: row.get(3),
        result: row.get(4),
        is_set: row.get(5),
        defaults: row.get::<_, i32>(6) as usize,
    });
    let mut all: Vec<String> = functions.flat_map(|function| function.plants(early)).collect();
    all.sort();
    all.dedup();
    all
}

/// The type of an argument where the extension's types do not exist.
fn early_type(name: &str) -> String {
    match name.rsplit('.').next().unwrap_or(name) {
        "hilo_sequence" => "text".into(),
        "hilo_role" => "oid".into(),
        "hilo_column" => "bigint".into(),
        _ if name.contains("hilo_") => "text".into(),
        _ => name.into(),
    }
}

/// Replaces the types in a text by [`early_type`].
fn early_text(text: &str) -> String {
    let words = text.split_inclusive([' ', ',', '(', ')']).map(|word| {
        let name = word.trim_end_matches([' ', ',', '(', ')']);
        match name.contains("hilo_") {
            true => format!("{}{}", early_type(name), &word[name.len()..]),
            false => word.to_owned(),
        }
    });
    words.collect()
}

/// Types that a value of this type, or a literal, could be taken for as well.
fn others(name: &str) -> &'static [&'static str] {
    match early_type(name).as_str() {
        "text" | "name" | "character varying" => &[
            "text",
            "character varying",
            "name",
            "character",
            "\"char\"",
            "regclass",
            "integer",
            "anyelement",
            "anycompatible",
        ],
        "bigint" | "integer" | "smallint" | "double precision" | "numeric" => &[
            "integer",
            "bigint",
            "smallint",
            "numeric",
            "double precision",
            "real",
            "oid",
            "text",
            "anyelement",
            "anycompatible",
        ],
        "oid" | "regclass" | "regtype" => &[
            "oid",
            "regclass",
            "regtype",
            "bigint",
            "integer",
            "text",
            "character varying",
            "name",
            "anyelement",
            "anycompatible",
        ],
        "jsonb" => &["json", "text", "jsonb", "anyelement", "anycompatible"],
        "interval" | "timestamp with time zone" => &[
            "text",
            "interval",
            "time",
            "timestamp with time zone",
            "timestamp without time zone",
            "anyelement",
            "anycompatible",
        ],
        array if array.ends_with("[]") => &[
            "anyarray",
            "text[]",
            "character varying[]",
            "name[]",
            "bigint[]",
            "integer[]",
            "numeric[]",
            "text",
            "anyelement",
            "anycompatiblearray",
        ],
        _ => &["text", "integer", "uuid", "boolean", "anyelement", "anycompatible"],
    }
}

impl Function {
    fn plants(self, early: bool) -> Vec<String> {
        let base: Vec<String> = match early {
            true => self.types.iter().map(|name| early_type(name)).collect(),
            false => self.types.clone(),
        };
        let this = match early {
            true => Function {
                out: self.out.iter().map(|text| early_text(text)).collect(),
                result: early_text(&self.result),
                ..self
            },
            false => self,
        };
        let mut shapes = vec![base.clone()];
        let most = base.iter().map(|name| others(name).len()).max().unwrap_or(0);
        for at in 0..most {
            // All arguments at once, and each by itself.
            let other = |name: &String| others(name)[at.min(others(name).len() - 1)].to_owned();
            shapes.push(base.iter().map(other).collect());
            for place in 0..base.len() {
                let mut shape = base.clone();
                shape[place] = other(&base[place]);
                shapes.push(shape);
            }
        }
        // With fewer arguments where there are defaults, and variadic ones. Not with more that have
        // defaults: they make calls ambiguous, which is an error, and no call of either.
        let fewer =
            (base.len() - this.defaults.min(base.len())..base.len()).map(|n| base[..n].to_vec());
        shapes.extend(fewer);
        // A function with the very types would only keep the extension from being created.
        if early {
            shapes.retain(|shape| *shape != this.types);
        }
        let mut all: Vec<String> = shapes.iter().map(|shape| this.plant(shape, "")).collect();
        for place in 0..=base.len() {
            for list in ["text[]", "bigint[]", "anyarray"] {
                all.push(this.plant(&base[..place], &format!(", VARIADIC more {list}")));
            }
        }
        all
    }

    fn plant(&self, types: &[String], more: &str) -> String {
        let named = types.iter().zip(&self.names).map(|(kind, name)| match name.as_str() {
            "" => kind.clone(),
            name => format!("\"{name}\" {kind}"),
        });
        let arguments = named.chain(self.out.iter().cloned()).collect::<Vec<_>>().join(", ");
        let arguments = format!("{arguments}{more}");
        let result = if self.out.is_empty() {
            format!("RETURNS {}", self.result)
        } else if self.is_set {
            "RETURNS SETOF record".into()
        } else {
            String::new()
        };
        let end = match self.is_set || !self.out.is_empty() || self.result == "void" {
            true => "RETURN;",
            false => "RETURN NULL;",
        };
        format!(
            "CREATE FUNCTION {}({}) {result} LANGUAGE plpgsql AS $planted$ BEGIN
                 IF current_user OPERATOR(pg_catalog.<>) 'mallory'::pg_catalog.name THEN
                     RAISE LOG '{MARK} %: {}({})', current_user;
                 END IF;
                 {end} END $planted$",
            self.name,
            arguments.trim_start_matches(", "),
            self.name,
            arguments.replace('\'', ""),
        )
    }
}

/// Runs the statements as mallory, with `schema` in front of her search_path. Returns how many have
/// planted something: some shapes are those of other functions, or none that Postgres knows.
pub fn plant(admin: &mut Client, schema: &str, plants: &[String]) -> i64 {
    admin.run(
        "CREATE OR REPLACE FUNCTION pg_temp.plant(plants pg_catalog.text[]) RETURNS pg_catalog.int8
             LANGUAGE plpgsql SET check_function_bodies = off AS $plant$
         DECLARE
             one pg_catalog.text;
             made pg_catalog.int8 := 0;
         BEGIN
             FOREACH one IN ARRAY plants LOOP
                 BEGIN
                     EXECUTE one;
                     made := made OPERATOR(pg_catalog.+) 1::pg_catalog.int8;
                 EXCEPTION WHEN syntax_error OR invalid_function_definition OR duplicate_function
                                OR undefined_object OR datatype_mismatch OR feature_not_supported THEN
                     NULL;
                 END;
             END LOOP;
             RETURN made;
         END $plant$",
    );
    admin.run(&format!("SET ROLE mallory; SET search_path = {schema}"));
    let made = admin.query_one("SELECT pg_temp.plant($1)", &[&plants]);
    admin.run("RESET ROLE; RESET search_path");
    made.expect("functions are planted").get(0)
}

/// Makes functions of schema `typed` that call the public ones, with arguments of exactly their
/// types. Calls that users write themselves are no matter of hilo's.
pub fn make_typed(admin: &mut Client, schema: &str) {
    admin.run(
        "CREATE SCHEMA typed; GRANT USAGE ON SCHEMA typed TO PUBLIC; SET search_path = pg_catalog",
    );
    let statements: Vec<String> = admin.all(&format!(
        "SELECT format('CREATE FUNCTION typed.%I(%s) RETURNS %s LANGUAGE sql BEGIN ATOMIC SELECT * FROM %s(%s); END',
                       p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.full_name,
                       (SELECT string_agg('$' || g, ', ') FROM generate_series(1, p.pronargs) g))
           FROM (SELECT p.*, format('%I.%I', n.nspname, p.proname) AS full_name
                   FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                  WHERE n.nspname = '{schema}') p
          WHERE {OF_HILO}"
    ));
    assert!(statements.len() > 40, "{}", statements.len());
    statements.iter().for_each(|statement| admin.run(statement));
    admin.run("RESET search_path");
}

/// The lines that planted functions which others have run left in the log.
fn ran(cluster: &Cluster) -> Vec<String> {
    let log = cluster.log();
    log.lines().filter(|line| line.contains(MARK)).map(str::to_owned).collect()
}

/// Fails the test if anybody but mallory has run a planted function.
#[track_caller]
pub fn assert_none_ran(cluster: &Cluster) {
    let ran = ran(cluster);
    assert!(ran.is_empty(), "{} planted functions have run:\n{}", ran.len(), ran.join("\n"));
}

/// Runs a statement of a user who casts nothing, and fails the test unless it has run a planted function.
#[track_caller]
pub fn assert_it_would(cluster: &Cluster, client: &mut Client, statement: &str) {
    client.run(statement);
    assert!(!ran(cluster).is_empty(), "nothing is planted that {statement} prefers");
}
