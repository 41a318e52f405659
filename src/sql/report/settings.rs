//! The settings that differ from their defaults.

use hilo_core::html::Html;

use super::source::{Part, Source, text};
use super::table::{Heading, Table};

struct Setting {
    name: String,
    value: String,
    default: String,
    meaning: String,
    source: String,
    waits_for_restart: bool,
}

#[derive(Default)]
pub struct Settings {
    changed: Vec<Setting>,
}

pub fn read(source: &Source) -> Part<Settings> {
    let changed = source.rows(
        "SELECT name, concat_ws(' ', NULLIF(setting, ''), unit), concat_ws(' ', NULLIF(boot_val, ''), unit), short_desc, source,
                pending_restart
           FROM pg_settings
          WHERE name LIKE 'hilo.%' AND (setting IS DISTINCT FROM boot_val OR pending_restart) ORDER BY name",
        |row| {
            let column = |number| text(&row, number).unwrap_or_default();
            Setting {
                name: column(1),
                value: column(2),
                default: column(3),
                meaning: column(4),
                source: column(5),
                waits_for_restart: row.bool(6),
            }
        },
    )?;
    Ok(Settings { changed })
}

impl Settings {
    pub fn write(&self, html: &mut Html) {
        if self.changed.is_empty() {
            html.line("p", &[("class", "good")], "All are at their defaults.");
            return;
        }
        let table = Table {
            class: "settings",
            caption: "Settings that differ from their defaults, in this session".into(),
            headings: &[
                Heading("Setting", false),
                Heading("Value", false),
                Heading("Default", false),
                Heading("What it does", false),
                Heading("Set by", false),
            ],
        };
        table.write(html, &self.changed, |cells, setting| {
            let shown =
                |value: &str| if value.is_empty() { "empty".to_owned() } else { value.to_owned() };
            cells.foreign(Some(&setting.name));
            cells.foreign(Some(&shown(&setting.value)));
            cells.foreign(Some(&shown(&setting.default)));
            cells.foreign(Some(&setting.meaning));
            cells.text(&match setting.waits_for_restart {
                true => format!("{}; another value waits for a restart", setting.source),
                false => setting.source.clone(),
            });
        });
    }
}
