//! The contenders: each hands out numbers, or keys, in its own way.

use hilo_tests::ClientExt;
use hilo_tests::Cluster;

/// One way to get a number.
pub struct Contender {
    /// Its part in the names of results, tables and columns.
    pub id: &'static str,
    pub label: &'static str,
    /// The call, as SQL.
    pub call: &'static str,
    /// The id of the floor: a call with the same argument.
    pub floor: &'static str,
    pub colour: [u8; 3],
}

pub const fn contender(
    id: &'static str,
    label: &'static str,
    call: &'static str,
    floor: &'static str,
    colour: [u8; 3],
) -> Contender {
    Contender { id, label, call, floor, colour }
}

// The colours are those of Okabe and Ito, a little lighter where they must be visible on black too.
pub const CORE_1: Contender =
    contender("core1", "core, CACHE 1", "nextval('core1')", "floor_core", [213, 94, 0]);
pub const CORE_32: Contender =
    contender("core32", "core, CACHE 32", "nextval('core32')", "floor_core", [230, 159, 0]);
pub const CORE_100: Contender =
    contender("core100", "core, CACHE 100", "nextval('core100')", "floor_core", [176, 137, 104]);
pub const CORE_1000: Contender =
    contender("core1000", "core, CACHE 1000", "nextval('core1000')", "floor_core", [204, 121, 167]);
pub const HILO: Contender =
    contender("hilo", "hilo", "hilo_nextval('hilo')", "floor_hilo", [30, 136, 210]);
pub const ORDERED: Contender =
    contender("ordered", "hilo, ordered", "hilo_nextval('ordered')", "floor_hilo", [86, 180, 233]);
pub const KEYS: Contender =
    contender("keys", "hilo, keys", "hilo_nextkey('keys')", "floor_hilo", [0, 158, 115]);
pub const UUID: Contender =
    contender("uuid", "gen_random_uuid", "gen_random_uuid()", "floor_nothing", [150, 110, 190]);

/// All contenders that can be called in a query.
pub const CALLED: [&Contender; 8] =
    [&CORE_1, &CORE_32, &CORE_100, &CORE_1000, &HILO, &ORDERED, &KEYS, &UUID];

pub const IDENTITY: Contender = contender("identity", "identity column", "", "", [230, 159, 0]);

/// A counter in a table: every number is a transaction, so it cannot be called in a query.
pub const COUNTER: Contender = contender("counter", "counter table", "", "", [150, 150, 150]);
pub const COUNT: &str = "UPDATE counter SET n = n + 1 RETURNING n";

/// Functions that only take the same argument: core's own C functions, which do no more than read it. Their
/// cost is what the executor needs to call any function.
pub const FLOOR_HILO: Contender =
    contender("floor_hilo", "floor of hilo", "floor_hilo('hilo')", "", [110, 110, 110]);
pub const FLOOR_CORE: Contender =
    contender("floor_core", "floor of core", "floor_core('core1')", "", [110, 110, 110]);
pub const FLOOR_NOTHING: Contender =
    contender("floor_nothing", "floor without an argument", "floor_nothing()", "", [110, 110, 110]);

pub const FLOORS: [&Contender; 3] = [&FLOOR_HILO, &FLOOR_CORE, &FLOOR_NOTHING];

const SCHEMA: &str = "
    CREATE FUNCTION floor_hilo(hilo_sequence) RETURNS integer
        LANGUAGE internal VOLATILE STRICT AS 'byteaoctetlen';
    CREATE FUNCTION floor_core(regclass) RETURNS bigint
        LANGUAGE internal VOLATILE STRICT AS 'oidtoi8';
    CREATE FUNCTION floor_nothing() RETURNS integer
        LANGUAGE internal VOLATILE STRICT AS 'pg_backend_pid';
    CREATE SEQUENCE core1 CACHE 1;
    CREATE SEQUENCE core32 CACHE 32;
    CREATE SEQUENCE core100 CACHE 100;
    CREATE SEQUENCE core1000 CACHE 1000;
    SELECT hilo_create('hilo'), hilo_create('ordered', ordered => true), hilo_create('keys');
    CREATE TABLE counter (n bigint NOT NULL) WITH (fillfactor = 50);
    INSERT INTO counter VALUES (0)";

/// Creates what the contenders call.
pub fn create(cluster: &Cluster) {
    cluster.connect("postgres").run(SCHEMA);
}

/// `all`, starting with a different one in every round, so that none is always first,
/// or always after the same other one.
pub fn rotate<T: Copy>(all: &[T], round: usize) -> Vec<T> {
    let mut order = all.to_vec();
    order.rotate_left(round % all.len());
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
