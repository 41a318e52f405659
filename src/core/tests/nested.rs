//! Nested values against a model that copies everything when a level begins.
#![cfg(not(loom))]

use hilo_core::nested::Nested;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Step {
    Begin,
    Commit,
    Abort,
    /// rolls back several levels at once
    AbortTo {
        depth: usize,
    },
    Set {
        key: u8,
        value: u32,
    },
    /// without saving it, which is allowed once the level has saved it
    Add {
        key: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        2 => Just(Step::Commit),
        2 => Just(Step::Abort),
        1 => (0usize..5).prop_map(|depth| Step::AbortTo { depth }),
        4 => (0u8..4, any::<u32>()).prop_map(|(key, value)| Step::Set { key, value }),
        3 => (0u8..4).prop_map(|key| Step::Add { key }),
    ]
}

type Model = Vec<HashMap<u8, u32>>;

fn apply(step: Step, model: &mut Model, nested: &mut Nested<u8, u32>) {
    let level = model.len() as i32;
    match step {
        Step::Begin => model.push(model[model.len() - 1].clone()),
        Step::Commit if level > 1 => {
            let inner = model.pop().unwrap();
            *model.last_mut().unwrap() = inner;
            nested.commit(level);
        }
        Step::Abort if level > 1 => {
            model.pop();
            nested.abort(level, |_, _| {});
        }
        Step::AbortTo { depth } if level > 1 => {
            let to = depth.clamp(1, model.len() - 1);
            model.truncate(to);
            nested.abort(to as i32 + 1, |_, _| {});
        }
        Step::Set { key, value } => {
            model.last_mut().unwrap().insert(key, value);
            nested.set(level, key, value).unwrap();
            assert!(nested.is_saved(level, &key));
        }
        Step::Add { key } if nested.is_saved(level, &key) => {
            let value = nested.get_mut(&key).unwrap();
            *value = value.wrapping_add(1);
            *model.last_mut().unwrap().get_mut(&key).unwrap() = *value;
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_rollback_brings_back_what_a_level_began_with(
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let mut model: Model = vec![HashMap::new()];
        let mut nested = Nested::empty();
        for step in steps {
            apply(step, &mut model, &mut nested);
            for key in 0..4 {
                prop_assert_eq!(nested.get(&key), model[model.len() - 1].get(&key));
            }
        }
        nested.abort(1, |_, _| {});
        prop_assert!((0..4).all(|key| nested.get(&key).is_none()));
    }
}

#[test]
fn levels_that_commit_one_after_the_other_leave_one_saved_value() {
    let mut nested = Nested::empty();
    nested.set(1, 'a', 0).unwrap();
    for round in 1..10_000 {
        nested.set(2, 'a', round).unwrap();
        nested.commit(2);
    }
    assert_eq!(nested.saved_count(), 1);
    nested.abort(1, |was, is| assert_eq!((was, is), (9_999, None)));
    assert_eq!(nested.get(&'a'), None);
}

#[test]
fn a_level_that_is_rolled_back_takes_what_it_added_to_a_list() {
    let mut nested = Nested::empty();
    nested.push(1, 'a').unwrap();
    nested.push(2, 'b').unwrap();
    nested.end(2, true, |_, _| {});
    nested.push(2, 'c').unwrap();
    nested.push(3, 'd').unwrap();
    let mut undone = Vec::new();
    nested.end(2, false, |was, is| undone.push((was, is.copied())));
    assert_eq!(undone, [('d', None), ('c', None)]);
    nested.push(1, 'e').unwrap();
    assert!(nested.iter().eq(&['a', 'b', 'e']));
}
