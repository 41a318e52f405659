//! The values that `hilo.node_id` can be set to.

use hilo_core::node_id::NodeId;

/// A number, `citus`, or nothing; nothing else is taken for one of them.
#[test]
fn values() {
    for (text, id) in [
        ("", NodeId::Unset),
        ("  ", NodeId::Unset),
        ("0", NodeId::Number(0)),
        (" 7 ", NodeId::Number(7)),
        ("1023", NodeId::Number(1023)),
        ("citus", NodeId::Citus),
        ("Citus", NodeId::Citus),
    ] {
        assert_eq!(NodeId::parse(text), Some(id), "{text:?}");
    }
    for text in ["-1", "1024", "99999999999", "1.5", "1 2", "north", "citus2", "0x1"] {
        assert_eq!(NodeId::parse(text), None, "{text:?}");
    }
}
