//! The values that `hilo.node_id` can be set to.

use hilo_core::node_id::parse;

/// A number, or nothing; nothing else is taken for one of them.
#[test]
fn values() {
    for (text, id) in
        [("", None), ("  ", None), ("0", Some(0)), (" 7 ", Some(7)), ("1023", Some(1023))]
    {
        assert_eq!(parse(text), Some(id), "{text:?}");
    }
    for text in ["-1", "1024", "99999999999", "1.5", "1 2", "north", "citus", "0x1"] {
        assert_eq!(parse(text), None, "{text:?}");
    }
}
