//! Definitions: core's defaults and checks, and what hilo adds.

use hilo_core::key_format::KeyFormatError;
use hilo_core::name::{self, NameError};
use hilo_core::options::{DataType, Definition, MAX_DESCRIPTION, MAX_SOURCE, OptionError, Options};
use proptest::prelude::*;

fn create(options: Options) -> Result<Definition, OptionError> {
    Definition::create(&options)
}

fn refusal(options: Options) -> String {
    create(options).unwrap_err().to_string()
}

fn plain() -> Options {
    Options::default()
}

#[test]
fn defaults_are_those_of_core() {
    use DataType::*;
    for (data_type, increment, min, max, start) in [
        (BigInt, 1, 1, i64::MAX, 1),
        (BigInt, -1, i64::MIN, -1, -1),
        (Integer, 5, 1, i32::MAX as i64, 1),
        (Integer, -5, i32::MIN as i64, -1, -1),
        (SmallInt, 1, 1, 32767, 1),
        (SmallInt, -1, -32768, -1, -1),
    ] {
        let options = Options { data_type: Some(data_type), increment: Some(increment), ..plain() };
        let made = create(options).unwrap();
        assert_eq!((made.min_value, made.max_value, made.start_value), (min, max, start));
        assert!(!made.cycle && !made.ordered);
    }
    let made = create(plain()).unwrap();
    assert_eq!((made.data_type, made.increment), (BigInt, 1));
    let down = create(Options { increment: Some(-1), max_value: Some(9), ..plain() }).unwrap();
    assert_eq!(down.start_value, 9);
}

#[test]
fn bounds_that_are_refused() {
    let small = || Options { data_type: Some(DataType::SmallInt), ..plain() };
    assert_eq!(refusal(Options { increment: Some(0), ..plain() }), "increment must not be zero");
    assert_eq!(
        refusal(Options { max_value: Some(32768), ..small() }),
        "max_value (32768) is out of range for sequence data type smallint"
    );
    assert_eq!(
        refusal(Options { min_value: Some(-32769), ..small() }),
        "min_value (-32769) is out of range for sequence data type smallint"
    );
    assert_eq!(
        refusal(Options { min_value: Some(5), max_value: Some(5), ..plain() }),
        "min_value (5) must be less than max_value (5)"
    );
    assert_eq!(
        refusal(Options { start_value: Some(0), ..plain() }),
        "start_value (0) cannot be less than min_value (1)"
    );
    assert_eq!(
        refusal(Options { start_value: Some(11), max_value: Some(10), ..plain() }),
        "start_value (11) cannot be greater than max_value (10)"
    );
}

#[test]
fn sizes_that_are_refused() {
    use OptionError::*;
    let block = |size| create(Options { block_size: Some(size), max_value: Some(10), ..plain() });
    assert_eq!(block(0), Err(BlockSizeNotPositive(0)));
    assert_eq!(block(-1), Err(BlockSizeNotPositive(-1)));
    assert_eq!(block(11), Err(BlockSizeTooLarge { block_size: 11, values: 10 }));
    assert!(block(10).is_ok());
    let slice = |size, ordered, block_size| {
        create(Options { slice_size: Some(size), ordered: Some(ordered), block_size, ..plain() })
    };
    assert_eq!(slice(0, false, None), Err(SliceSizeOutOfRange(0)));
    assert_eq!(slice(65_537, false, None), Err(SliceSizeOutOfRange(65_537)));
    assert!(slice(65_536, false, None).is_ok());
    assert_eq!(slice(4, true, None), Err(OrderedWithSlice));
    let larger = SliceLargerThanBlock { slice_size: 4, block_size: 3 };
    assert_eq!(slice(4, false, Some(3)), Err(larger));
    let format = create(Options { key_format: Some("{name}".into()), ..plain() });
    assert_eq!(format, Err(KeyFormat(KeyFormatError::NoValue)));
}

#[test]
fn a_bound_of_the_type_follows_the_type() {
    let made = create(plain()).unwrap();
    let integer = Options { data_type: Some(DataType::Integer), ..plain() };
    let altered = made.alter(&integer, None, None).unwrap();
    assert_eq!((altered.min_value, altered.max_value), (1, i32::MAX as i64));
    let back = Options { data_type: Some(DataType::BigInt), ..plain() };
    assert_eq!(altered.alter(&back, None, None).unwrap(), made);

    let chosen = create(Options { max_value: Some(1_000_000), ..plain() }).unwrap();
    let small = Options { data_type: Some(DataType::SmallInt), ..plain() };
    let refused = chosen.alter(&small, None, None);
    let error = OptionError::MaxOutOfRange { value: 1_000_000, data_type: DataType::SmallInt };
    assert_eq!(refused, Err(error));
}

#[test]
fn the_current_value_stays_within_bounds() {
    let made = create(plain()).unwrap();
    let lower = Options { max_value: Some(100), ..plain() };
    let above = OptionError::CurrentAboveMax { current: 101, max: 100 };
    assert_eq!(made.alter(&lower, Some(101), None), Err(above));
    assert!(made.alter(&lower, Some(100), None).is_ok());
    assert!(made.alter(&lower, Some(101), Some(1)).is_ok());
    assert!(made.alter(&lower, None, None).is_ok());
    let beyond = OptionError::RestartAboveMax { restart: 101, max: 100 };
    assert_eq!(made.alter(&lower, Some(1), Some(101)), Err(beyond));
    let below = OptionError::RestartBelowMin { restart: 0, min: 1 };
    assert_eq!(made.alter(&plain(), Some(1), Some(0)), Err(below));
    // A crash has lost it since the bound was narrowed.
    let narrow = made.alter(&lower, Some(100), None).unwrap();
    let other = Options { max_value: Some(101), block_size: Some(8), ..plain() };
    for options in [plain(), other] {
        assert!(narrow.alter(&options, Some(200), None).is_ok());
    }
}

#[test]
fn alter_keeps_what_it_is_not_told() {
    let options = Options {
        block_size: Some(100),
        slice_size: Some(10),
        key_format: Some("K{value}".into()),
        cycle: Some(true),
        ..plain()
    };
    let made = create(options).unwrap();
    assert_eq!(made.alter(&plain(), None, None).unwrap(), made);
    let adaptive = Options { block_size: Some(0), slice_size: Some(0), ..plain() };
    let altered = made.alter(&adaptive, None, None).unwrap();
    assert_eq!((altered.block_size, altered.slice_size), (None, None));
    let ordered = Options { ordered: Some(true), ..plain() };
    assert_eq!(made.alter(&ordered, None, None), Err(OptionError::OrderedWithSlice));
    let both = Options { ordered: Some(true), slice_size: Some(0), ..plain() };
    assert!(made.alter(&both, None, None).unwrap().ordered);
}

fn any_options() -> impl Strategy<Value = Options> {
    let value = || {
        prop::option::of(prop_oneof![
            -50i64..50,
            any::<i16>().prop_map(i64::from),
            any::<i32>().prop_map(i64::from),
            any::<i64>(),
            Just(i64::MIN),
            Just(i64::MAX)
        ])
    };
    let data_type = prop::sample::select(vec![
        None,
        Some(DataType::SmallInt),
        Some(DataType::Integer),
        Some(DataType::BigInt),
    ]);
    let flag = || prop::option::of(any::<bool>());
    let flags = (flag(), flag(), flag());
    let sizes = (value(), prop::option::of(any::<i64>()));
    (data_type, value(), value(), value(), value(), flags, sizes).prop_map(
        |(data_type, start_value, increment, min_value, max_value, flags, sizes)| Options {
            data_type,
            start_value,
            increment,
            min_value,
            max_value,
            cycle: flags.0,
            ordered: flags.1,
            block_size: sizes.0,
            slice_size: sizes.1,
            key_format: None,
            gapless: flags.2,
            source: None,
            reserve_ahead: None,
            description: None,
        },
    )
}

fn assert_valid(made: &Definition) {
    assert!(made.increment != 0);
    assert!(made.data_type.min() <= made.min_value && made.max_value <= made.data_type.max());
    assert!(made.min_value < made.max_value);
    assert!((made.min_value..=made.max_value).contains(&made.start_value));
    assert!(made.block_size.is_none_or(|size| size >= 1 && size as i128 <= made.values()));
    assert!(made.slice_size.is_none_or(|size| size >= 1 && !made.ordered));
    assert!(!made.gapless || !made.cycle && made.block_size.or(made.slice_size).is_none());
}

proptest! {
    #[test]
    fn what_passes_is_valid(
        first in any_options(), second in any_options(), last in any::<Option<i64>>(),
        restart in any::<Option<i64>>(),
    ) {
        let made = create(first).unwrap_or_else(|error| {
            assert!(!error.to_string().is_empty());
            create(plain()).unwrap()
        });
        assert_valid(&made);
        if let Ok(altered) = made.alter(&second, last, restart) {
            assert_valid(&altered);
            let known = last.filter(|last| (made.min_value..=made.max_value).contains(last));
            if let Some(current) = restart.or(known) {
                prop_assert!((altered.min_value..=altered.max_value).contains(&current));
            }
        }
    }
}

#[test]
fn names() {
    assert_eq!(name::validate("tenants/42/orders".as_bytes()), Ok(()));
    assert_eq!(name::validate("Zürich €".as_bytes()), Ok(()));
    assert_eq!(name::validate(&[b'x'; 255]), Ok(()));
    assert_eq!(name::validate(b""), Err(NameError::Empty));
    assert_eq!(name::validate(&[b'x'; 256]), Err(NameError::TooLong { length: 256 }));
    for (text, code, position) in [
        ("a\0", 0, 1),
        ("\n", 10, 0),
        ("ab\u{7f}", 127, 2),
        ("é\u{80}", 0x80, 2),
        ("\u{9f}", 0x9f, 0),
    ] {
        assert_eq!(name::validate(text.as_bytes()), Err(NameError::Control { code, position }));
    }
    assert_eq!(name::validate("\u{a0}".as_bytes()), Ok(()));
}

#[test]
fn a_gapless_sequence_has_neither_sizes_nor_laps() {
    let gapless = Options { gapless: Some(true), ..Options::default() };
    let made = Definition::create(&gapless).unwrap();
    assert!(made.gapless);
    let ordered = Options { ordered: Some(true), ..gapless.clone() };
    assert!(Definition::create(&ordered).is_ok());
    for (options, error) in [
        (Options { cycle: Some(true), ..gapless.clone() }, OptionError::GaplessCycles),
        (Options { block_size: Some(5), ..gapless.clone() }, OptionError::GaplessWithBlock),
        (Options { slice_size: Some(5), ..gapless.clone() }, OptionError::GaplessWithSlice),
    ] {
        assert_eq!(Definition::create(&options), Err(error.clone()));
        let change = Options { gapless: None, ..options.clone() };
        assert_eq!(made.alter(&change, None, None), Err(error.clone()));
        let plain = Definition::create(&change).unwrap();
        assert_eq!(plain.alter(&gapless, None, None), Err(error.clone()));
        assert_eq!(error.code() == "0A000", error == OptionError::GaplessCycles);
        assert!(error.hint().is_some() && error.detail().is_some());
    }
    let both = Options { block_size: Some(5), ..Options::default() };
    let sized = Definition::create(&both).unwrap();
    let change = Options { block_size: Some(0), ..gapless };
    assert!(sized.alter(&change, None, None).unwrap().gapless);
    let back = Options { gapless: Some(false), ..Options::default() };
    assert!(!made.alter(&back, None, None).unwrap().gapless);
    assert!(made.alter(&Options::default(), None, None).unwrap().gapless);
}

#[test]
fn names_count_on() {
    let after = |name: &str| -> Vec<String> {
        let names = name::successors(name.as_bytes()).take(3);
        names.map(|name| String::from_utf8(name).unwrap()).collect()
    };
    assert_eq!(after("tenant-8"), ["tenant-9", "tenant-10", "tenant-11"]);
    assert_eq!(after("many-008"), ["many-009", "many-010", "many-011"]);
    assert_eq!(after("a99"), ["a100", "a101", "a102"]);
    assert_eq!(after("7"), ["8", "9", "10"]);
    assert_eq!(after("0"), ["1", "2", "3"]);
    assert_eq!(after("a09"), ["a10", "a11", "a12"]);
    // The last digits count of a number that is longer than any counter.
    assert_eq!(after(&"9".repeat(30))[0], format!("{}1{}", "9".repeat(12), "0".repeat(18)));
    assert_eq!(after("orders"), [""; 0]);
    assert_eq!(after(""), [""; 0]);
}

#[test]
fn the_text_of_a_source_has_a_limit() {
    let source = |length: usize| Options { source: Some("ü".repeat(length / 2)), ..plain() };
    let made = create(source(MAX_SOURCE)).unwrap();
    let length = MAX_SOURCE + 2;
    assert_eq!(create(source(length)), Err(OptionError::SourceTooLong { length }));
    assert_eq!(made.alter(&source(length), None, None), Err(OptionError::SourceTooLong { length }));
}

#[test]
fn a_description_has_a_limit_and_can_be_taken_away() {
    let of = |text: &str| Options { description: Some(text.into()), ..plain() };
    let longest = "ü".repeat(MAX_DESCRIPTION / 2);
    let made = create(of(&longest)).unwrap();
    assert_eq!(made.description.as_ref(), Some(&longest));
    let length = MAX_DESCRIPTION + 1;
    let refused = Err(OptionError::DescriptionTooLong { length });
    assert_eq!(create(of(&(longest.clone() + "."))), refused);
    assert_eq!(made.alter(&of(&(longest + ".")), None, None), refused);
    assert_eq!(made.alter(&plain(), None, None).unwrap(), made);
    let altered = made.alter(&of(""), None, None).unwrap();
    assert_eq!(altered, create(plain()).unwrap());
    assert_eq!(create(of("")).unwrap(), altered);
}

#[test]
fn a_description_changes_nothing_that_is_served() {
    let described = Options { description: Some("for orders".into()), ..plain() };
    let sized = Options { block_size: Some(7), ..plain() };
    let [gapless, ordered] = [Some(true), Some(false)]
        .map(|gapless| create(Options { gapless, ordered: Some(true), ..plain() }).unwrap());
    for old in [gapless, ordered] {
        let new = old.alter(&described, None, None).unwrap();
        assert!(new != old && new.serves_like(&old) && !new.renumbers(&old));
    }
    let plain = create(plain()).unwrap();
    assert!(!plain.alter(&sized, None, None).unwrap().serves_like(&plain));
}

#[test]
fn options_know_which_of_them_are_texts() {
    let options = Options {
        data_type: Some(DataType::Integer),
        block_size: Some(5),
        key_format: Some("{value}".into()),
        description: Some("for orders".into()),
        ..plain()
    };
    let texts: Vec<_> = options.texts().collect();
    assert_eq!(texts, [("key_format", "{value}"), ("description", "for orders")]);
}
