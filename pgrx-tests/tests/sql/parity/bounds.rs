//! The end of a sequence, and beginning again.

use super::{Case, same};

pub const CASES: &[Case] = &[
    same(
        "exhausted-rising",
        "CREATE SEQUENCE s MAXVALUE 2
         > SELECT nextval('s')
         > SELECT nextval('s')
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s', max_value => 2)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "1 2 2200H 2200H",
    ),
    same(
        "exhausted-falling",
        "CREATE SEQUENCE s INCREMENT BY -1 MINVALUE -2
         > SELECT nextval('s')
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s', increment => -1, min_value => -2)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "-1 -2 2200H",
    ),
    same(
        "exhausted-in-steps",
        "CREATE SEQUENCE s START 24 INCREMENT BY 4 MINVALUE 5 MAXVALUE 37
         > SELECT nextval('s') FROM generate_series(1, 4)
         > SELECT nextval('s')",
        "SELECT hilo_create('s', start_value => 24, increment => 4, min_value => 5, max_value => 37)
         > SELECT hilo_nextval('s') FROM generate_series(1, 4)
         > SELECT hilo_nextval('s')",
        "24,28,32,36 2200H",
    ),
    same(
        "exhausted-at-the-type",
        "CREATE SEQUENCE s START 9223372036854775806
         > SELECT nextval('s')
         > SELECT nextval('s')
         > SELECT nextval('s')
         CREATE SEQUENCE t AS smallint START 32767
         > SELECT nextval('t')
         > SELECT nextval('t')",
        "SELECT hilo_create('s', start_value => 9223372036854775806)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')
         SELECT hilo_create('t', data_type => 'smallint', start_value => 32767)
         > SELECT hilo_nextval('t')
         > SELECT hilo_nextval('t')",
        "9223372036854775806 9223372036854775807 2200H 32767 2200H",
    ),
    same(
        "exhausted-in-a-statement",
        "CREATE SEQUENCE s MAXVALUE 3
         > SELECT nextval('s') FROM generate_series(1, 5)
         > SELECT nextval('s')
         > SELECT currval('s')",
        "SELECT hilo_create('s', max_value => 3)
         > SELECT hilo_nextvals('s', 5)
         > SELECT hilo_nextval('s')
         > SELECT hilo_currval('s')",
        "2200H 2200H 3",
    ),
    same(
        "exhausted-and-widened",
        "CREATE SEQUENCE s MAXVALUE 2
         SELECT nextval('s') FROM generate_series(1, 2)
         > SELECT nextval('s')
         ALTER SEQUENCE s MAXVALUE 4
         > SELECT nextval('s') FROM generate_series(1, 2)
         > SELECT nextval('s')",
        "SELECT hilo_create('s', max_value => 2)
         SELECT hilo_nextval('s') FROM generate_series(1, 2)
         > SELECT hilo_nextval('s')
         SELECT hilo_alter('s', max_value => 4)
         > SELECT hilo_nextval('s') FROM generate_series(1, 2)
         > SELECT hilo_nextval('s')",
        "2200H 3,4 2200H",
    ),
    same(
        "exhausted-and-set",
        "CREATE SEQUENCE s MAXVALUE 3
         SELECT nextval('s') FROM generate_series(1, 3)
         SELECT setval('s', 1)
         > SELECT nextval('s')",
        "SELECT hilo_create('s', max_value => 3)
         SELECT hilo_nextval('s') FROM generate_series(1, 3)
         SELECT hilo_setval('s', 1)
         > SELECT hilo_nextval('s')",
        "2",
    ),
    same(
        "cycle-rising",
        "CREATE SEQUENCE s START 5 MINVALUE 3 MAXVALUE 6 CYCLE
         > SELECT nextval('s') FROM generate_series(1, 7)",
        "SELECT hilo_create('s', start_value => 5, min_value => 3, max_value => 6, cycle => true)
         > SELECT hilo_nextval('s') FROM generate_series(1, 7)",
        "5,6,3,4,5,6,3",
    ),
    same(
        "cycle-falling",
        "CREATE SEQUENCE s INCREMENT BY -1 START -2 MINVALUE -3 MAXVALUE 1 CYCLE
         > SELECT nextval('s') FROM generate_series(1, 8)",
        "SELECT hilo_create('s', increment => -1, start_value => -2, min_value => -3, max_value => 1, cycle => true)
         > SELECT hilo_nextval('s') FROM generate_series(1, 8)",
        "-2,-3,1,0,-1,-2,-3,1",
    ),
    same(
        "cycle-in-steps",
        "CREATE SEQUENCE s START 24 INCREMENT BY 4 MINVALUE 5 MAXVALUE 36 CYCLE
         > SELECT nextval('s') FROM generate_series(1, 7)",
        "SELECT hilo_create('s', start_value => 24, increment => 4, min_value => 5, max_value => 36, cycle => true)
         > SELECT hilo_nextval('s') FROM generate_series(1, 7)",
        "24,28,32,36,5,9,13",
    ),
    same(
        "cycle-begun-late",
        "CREATE SEQUENCE s MAXVALUE 2
         SELECT nextval('s') FROM generate_series(1, 2)
         ALTER SEQUENCE s CYCLE
         > SELECT nextval('s') FROM generate_series(1, 3)",
        "SELECT hilo_create('s', max_value => 2)
         SELECT hilo_nextval('s') FROM generate_series(1, 2)
         SELECT hilo_alter('s', cycle => true)
         > SELECT hilo_nextval('s') FROM generate_series(1, 3)",
        "1,2,1",
    ),
    same(
        "cycle-ended",
        "CREATE SEQUENCE s MAXVALUE 3 CYCLE
         SELECT nextval('s') FROM generate_series(1, 5)
         ALTER SEQUENCE s NO CYCLE
         > SELECT nextval('s')
         > SELECT nextval('s')",
        "SELECT hilo_create('s', max_value => 3, cycle => true)
         SELECT hilo_nextval('s') FROM generate_series(1, 5)
         SELECT hilo_alter('s', cycle => false)
         > SELECT hilo_nextval('s')
         > SELECT hilo_nextval('s')",
        "3 2200H",
    ),
];
