//! Calls as triggers of the extension's own tables. If a user makes a trigger of such a function on
//! another table, the call is refused: the function would misread the row.

use std::ffi::CStr;

use pgrx::prelude::*;

use pg_sys::{
    TRIGGER_EVENT_BEFORE, TRIGGER_EVENT_DELETE, TRIGGER_EVENT_INSERT, TRIGGER_EVENT_OPMASK,
    TRIGGER_EVENT_ROW, TRIGGER_EVENT_UPDATE,
};

use crate::catalog::table::{Row, split};

/// Declares functions of triggers, all with the same body: it takes a [`Fired`], and finds in it
/// which table the trigger is of. Each is a symbol in the SQL objects of some version.
macro_rules! trigger_functions {
    ($body:path; $($name:ident),+ $(,)?) => { $(
        $crate::sql::call::raw_function::export!($name "", |fcinfo| {
            // SAFETY: Postgres passes a live call to a trigger function.
            $body(unsafe { $crate::sql::call::trigger::Fired::of(fcinfo) })
        });
    )+ };
}

pub(crate) use trigger_functions;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Insert,
    Update,
    Delete,
}

/// The call of a trigger before a row of one of the catalog's tables changes. It must not
/// outlive the call.
pub struct Fired {
    trigger: *mut pg_sys::TriggerData,
    pub event: Event,
}

impl Fired {
    /// Any other call is refused.
    ///
    /// # Safety
    /// `fcinfo` must be a live call.
    pub unsafe fn of(fcinfo: pg_sys::FunctionCallInfo) -> Fired {
        const TIMING: u32 = TRIGGER_EVENT_ROW | pg_sys::TRIGGER_EVENT_TIMINGMASK;
        // SAFETY: the caller guarantees a live call. Its context is null, which is checked, or a
        // node, whose tag tells what it is; a trigger has its relation, which is open.
        unsafe {
            let context = (*fcinfo).context;
            if !context.is_null() && (*context).type_ == pg_sys::NodeTag::T_TriggerData {
                let trigger: *mut pg_sys::TriggerData = context.cast();
                let class = &*(*(*trigger).tg_relation).rd_rel;
                let schema = pg_sys::get_namespace_name(class.relnamespace);
                let event = match (*trigger).tg_event & TRIGGER_EVENT_OPMASK {
                    TRIGGER_EVENT_INSERT => Some(Event::Insert),
                    TRIGGER_EVENT_UPDATE => Some(Event::Update),
                    TRIGGER_EVENT_DELETE => Some(Event::Delete),
                    _ => None,
                };
                if let Some(event) = event
                    && (*trigger).tg_event & TIMING == TRIGGER_EVENT_ROW | TRIGGER_EVENT_BEFORE
                    && !schema.is_null()
                    // Before 0.4.0 it was the latter.
                    && [c"_hilo", c"hilo"].contains(&CStr::from_ptr(schema))
                {
                    return Fired { trigger, event };
                }
            }
        }
        refuse()
    }

    /// The name of the table.
    pub fn table(&self) -> &[u8] {
        // SAFETY: the relation of a trigger is open, and its name ends with a zero byte.
        unsafe {
            let class = &*(*(*self.trigger).tg_relation).rd_rel;
            CStr::from_ptr(class.relname.data.as_ptr()).to_bytes()
        }
    }

    /// The table of this name in the same schema; `InvalidOid` if there is none.
    pub fn neighbour(&self, name: &CStr) -> pg_sys::Oid {
        // SAFETY: as above, and the name is a C string.
        unsafe {
            let class = &*(*(*self.trigger).tg_relation).rd_rel;
            pg_sys::get_relname_relid(name.as_ptr(), class.relnamespace)
        }
    }

    fn row(&self, tuple: pg_sys::HeapTuple) -> Row {
        // SAFETY: the tuple is one of the trigger's relation, and both live as long as the call.
        unsafe { Row::of(tuple, (*(*self.trigger).tg_relation).rd_att) }
    }

    /// The existing row, if one is changed or deleted.
    pub fn old(&self) -> Row {
        // SAFETY: the data of the trigger lives as long as the call.
        self.row(unsafe { (*self.trigger).tg_trigtuple })
    }

    /// The new row, if one is inserted or changed.
    pub fn new_row(&self) -> Row {
        self.row(self.new_tuple())
    }

    fn new_tuple(&self) -> pg_sys::HeapTuple {
        // SAFETY: the data of the trigger lives as long as the call.
        unsafe {
            match self.event {
                Event::Update => (*self.trigger).tg_newtuple,
                _ => (*self.trigger).tg_trigtuple,
            }
        }
    }

    /// The answer that lets the change happen.
    pub fn accept(&self) -> pg_sys::Datum {
        self.new_tuple().into()
    }

    /// The answer that stores the new row with these columns replaced.
    ///
    /// # Safety
    /// Each value must be of its column's type.
    pub unsafe fn replacing(&self, columns: &[(i16, Option<pg_sys::Datum>)]) -> pg_sys::Datum {
        let (mut numbers, values): (Vec<i32>, Vec<_>) =
            columns.iter().map(|(at, value)| (i32::from(*at), *value)).unzip();
        let (mut values, mut nulls) = split(&values);
        // SAFETY: the caller guarantees the types, and each array has an element for every column
        // replaced.
        unsafe {
            pg_sys::heap_modify_tuple_by_cols(
                self.new_tuple(),
                (*(*self.trigger).tg_relation).rd_att,
                columns.len() as i32,
                numbers.as_mut_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            )
            .into()
        }
    }
}

/// Refuses a call that is not of a trigger as sql/triggers.sql has it.
pub fn refuse() -> ! {
    ereport!(
        ERROR,
        PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        "this function can only be called as a trigger of the catalog of hilo",
        "The trigger runs before a row of a table in schema _hilo changes."
    );
}
