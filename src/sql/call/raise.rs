//! `_hilo.hilo_refuse`: the errors of the extension's own SQL.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::errors::HiloError;
use crate::sql::call::border::Call;
use crate::sql::call::text::Text;

/// `_hilo.hilo_refuse(message, hint, detail, code)`
#[pg_extern(sql = false)]
fn hilo_refuse(
    _call: Call,
    message: Option<Text>,
    hint: Option<Text>,
    detail: Option<Text>,
    code: Option<Text>,
) -> Result<i64, ErrorReport> {
    let [state, message] = [code, message].map(|text| text.map(Text::escaped).unwrap_or_default());
    let [detail, hint] = [detail, hint].map(|text| text.map(Text::escaped));
    Err(HiloError::Told { state, message, detail, hint }.into())
}
