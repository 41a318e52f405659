//! The connection, and the one statement that carries out a plan.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Config, Row, Socket};
use uuid::Uuid;

use crate::Error;
use crate::engine::{End, Plan};
use crate::fork::only_here;

type Connecting = Pin<Box<dyn Future<Output = Result<Link, Error>> + Send>>;

type Canceling = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

/// Makes connections to the server that a client was built for.
pub type Connector = Box<dyn Fn() -> Connecting + Send + Sync>;

/// How to connect to `config` with `tls`, in the process of this generation.
pub fn connector<T>(config: Config, tls: T, generation: u32) -> Connector
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Box::new(move || {
        let (config, tls) = (config.clone(), tls.clone());
        Box::pin(async move {
            let (client, connection) = config.connect(tls.clone()).await.map_err(unreachable)?;
            let talk = async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "the connection has ended");
                }
            };
            let task = Guard(tokio::spawn(only_here(generation, talk)));
            let token = client.cancel_token();
            let cancel = move || -> Canceling {
                let (token, tls) = (token.clone(), tls.clone());
                Box::pin(async move { token.cancel_query(tls).await })
            };
            Link::new(client, task, Box::new(cancel)).await
        })
    })
}

fn unreachable(source: tokio_postgres::Error) -> Error {
    Error::Unreachable { source: Some(Arc::new(source)) }
}

/// Ends the connection with its link.
struct Guard(JoinHandle<Result<(), Error>>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection to the server.
pub struct Link {
    client: tokio_postgres::Client,
    _guard: Guard,
    cancel: Box<dyn Fn() -> Canceling + Send + Sync>,
    carry_out: String,
    of_holder: String,
}

/// A lease as the server describes it.
#[derive(Debug)]
pub struct Granted {
    /// The place of the ask in its plan.
    pub ask: usize,
    pub token: Uuid,
    pub last: i64,
    pub increment: i64,
    pub count: i64,
    pub key_format: String,
    pub server_prefix: String,
    pub suggested: i64,
}

/// What the server has done.
#[derive(Debug, Default)]
pub struct Answer {
    pub granted: Vec<Granted>,
    /// How many values it serves again.
    pub returned: i64,
}

impl Answer {
    /// Whether it has one row for each ask of a plan, each with a lease of its own: one that came
    /// twice would be served twice.
    pub fn fits(&self, plan: &Plan) -> bool {
        let count = plan.asks.len();
        let places = self.granted.iter().map(|granted| granted.ask).filter(|ask| *ask < count);
        let places: HashSet<usize> = places.collect();
        let tokens: HashSet<Uuid> = self.granted.iter().map(|granted| granted.token).collect();
        [self.granted.len(), places.len(), tokens.len()] == [count; 3]
    }
}

/// On what terms leases are taken.
pub struct Terms<'a> {
    pub holder: &'a str,
    /// In seconds.
    pub ttl: Option<f64>,
    /// How long the server waits for a sequence that somebody else holds.
    pub reserve_timeout: Duration,
}

impl Link {
    async fn new(
        client: tokio_postgres::Client,
        guard: Guard,
        cancel: Box<dyn Fn() -> Canceling + Send + Sync>,
    ) -> Result<Link, Error> {
        let found = client.query_typed(FIND_SCHEMA, &[]).await.map_err(unreachable)?;
        let schema: String = found.first().ok_or(Error::NotInstalled)?.get(0);
        Ok(Link {
            client,
            _guard: guard,
            cancel,
            carry_out: CARRY_OUT.replace("SCHEMA", &schema),
            of_holder: OF_HOLDER.replace("SCHEMA", &schema),
        })
    }

    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Asks the server to give up the statement that is under way.
    pub async fn cancel(&self) -> Result<(), tokio_postgres::Error> {
        (self.cancel)().await
    }

    /// Does all of a plan in one transaction. What it returns has been committed: the future is
    /// ready only when the server has said that it is ready for the next query, and an error before
    /// that, also of the commit, is returned instead.
    pub async fn carry_out(
        &self,
        plan: &Plan,
        names: &[Arc<str>],
        terms: Terms<'_>,
    ) -> Result<Answer, tokio_postgres::Error> {
        let (mut returned, mut nexts, mut revoked) = (Vec::new(), Vec::new(), Vec::new());

        for back in &plan.returns {
            match back.end {
                End::Return(next) => {
                    returned.push(back.token);
                    nexts.push(next);
                }
                End::Revoke => revoked.push(back.token),
            }
        }
        let renewed: Vec<Uuid> = plan.renewals.iter().map(|(_, token)| *token).collect();
        let asked: Vec<&str> = names.iter().map(|name| &**name).collect();
        let counts: Vec<i64> = plan.asks.iter().map(|ask| ask.count).collect();
        let reserve_timeout = format!("{}ms", terms.reserve_timeout.as_millis().max(1));
        let parameters: [(&(dyn ToSql + Sync), Type); 10] = [
            (&returned, Type::UUID_ARRAY),
            (&nexts, Type::INT8_ARRAY),
            (&revoked, Type::UUID_ARRAY),
            (&renewed, Type::UUID_ARRAY),
            (&asked, Type::TEXT_ARRAY),
            (&counts, Type::INT8_ARRAY),
            (&terms.holder, Type::TEXT),
            (&terms.ttl, Type::FLOAT8),
            (&reserve_timeout, Type::TEXT),
            (&plan.sweep, Type::BOOL),
        ];
        let rows = self.client.query_typed(&self.carry_out, &parameters).await?;
        let mut answer = Answer::default();
        for row in &rows {
            match row.try_get::<_, Option<i64>>(0)? {
                Some(place) => answer.granted.push(granted(row, place)?),
                None => answer.returned += row.try_get::<_, i64>(4)?,
            }
        }
        Ok(answer)
    }

    /// The open leases of a holder.
    pub async fn leases_of(&self, holder: &str) -> Result<HashSet<Uuid>, tokio_postgres::Error> {
        let rows = self.client.query_typed(&self.of_holder, &[(&holder, Type::TEXT)]).await?;
        rows.iter().map(|row| row.try_get(0)).collect()
    }
}

fn granted(row: &Row, place: i64) -> Result<Granted, tokio_postgres::Error> {
    Ok(Granted {
        ask: usize::try_from(place - 1).unwrap_or(usize::MAX),
        token: row.try_get(1)?,
        last: row.try_get(2)?,
        increment: row.try_get(3)?,
        count: row.try_get(4)?,
        key_format: row.try_get(5)?,
        server_prefix: row.try_get(6)?,
        suggested: row.try_get(7)?,
    })
}

/// Where hilo's functions are, quoted: the schema of the extension, or of hilo_lite, whose type for
/// names is that of a column.
const FIND_SCHEMA: &str = "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n \
     WHERE EXISTS (SELECT FROM pg_catalog.pg_proc p \
                    WHERE p.proname = 'hilo_lease' AND p.pronamespace = n.oid) \
       AND n.oid IN (SELECT e.extnamespace FROM pg_catalog.pg_extension e WHERE e.extname = 'hilo' \
         UNION ALL SELECT t.typnamespace FROM pg_catalog.pg_namespace i \
           JOIN pg_catalog.pg_class c ON c.relnamespace = i.oid \
           JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid \
           JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
          WHERE i.nspname = '_hilo' AND c.relname = 'sequence' AND a.attname = 'name' \
            AND t.typname = 'hilo_sequence')";

/// Ends before leases: if the server refuses one, no lease was taken whose values would then be
/// lost. A lease or a sequence that somebody holds must not hold up the others for long.
///
/// Each function is named with its schema, and gets all its arguments in its own types: one that
/// somebody else has defined in that schema, or in one of the search path, is never a better match.
const CARRY_OUT: &str = "\
SELECT NULL::bigint, NULL::uuid, NULL::bigint, NULL::bigint, \
       0::bigint * pg_catalog.length(pg_catalog.set_config('hilo.reserve_timeout', $9::text, true) \
                                     || pg_catalog.set_config('lock_timeout', '100ms', true)), \
       NULL::text, NULL::text, NULL::bigint \
UNION ALL \
SELECT NULL::bigint, r.lease, NULL::bigint, NULL::bigint, SCHEMA.hilo_lease_return(r.lease, \
r.next), \
       NULL::text, NULL::text, NULL::bigint \
    FROM ROWS FROM (pg_catalog.unnest($1::uuid[]), pg_catalog.unnest($2::bigint[])) AS r (lease, \
    next) \
UNION ALL \
SELECT NULL, r.lease, NULL, NULL, 0 * SCHEMA.hilo_lease_revoke(r.lease, NULL::text), NULL, NULL, \
NULL \
    FROM pg_catalog.unnest($3::uuid[]) AS r (lease) \
UNION ALL \
SELECT NULL, NULL, NULL, NULL, 0 * SCHEMA.hilo_lease_revoke(NULL::uuid, $7::text), NULL, NULL, \
NULL WHERE $10::boolean \
UNION ALL \
SELECT NULL, r.lease, NULL, NULL, \
       0 * pg_catalog.length(SCHEMA.hilo_lease_renew(r.lease, pg_catalog.make_interval(secs => \
       $8::float8))::text), \
       NULL, NULL, NULL \
    FROM pg_catalog.unnest($4::uuid[]) AS r (lease) \
UNION ALL \
SELECT NULL, NULL, NULL, NULL, 0 * pg_catalog.length(pg_catalog.set_config('lock_timeout', \
$9::text, true)), NULL, NULL, NULL \
UNION ALL \
SELECT a.place, l.lease, l.last, l.increment, l.count, l.key_format, l.server_prefix, l.suggested \
    FROM ROWS FROM (pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::bigint[])) WITH \
    ORDINALITY AS a (name, n, place), \
         LATERAL SCHEMA.hilo_lease(a.name::SCHEMA.hilo_sequence, a.n, $7::text, \
         pg_catalog.make_interval(secs => $8::float8)) AS l";

const OF_HOLDER: &str =
    "SELECT lease FROM SCHEMA.hilo_leases WHERE holder = $1 AND lease IS NOT NULL";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Ask, Id, Purpose};

    fn answer(rows: &[(usize, u128)]) -> Answer {
        let granted = rows.iter().map(|(ask, token)| Granted {
            ask: *ask,
            token: Uuid::from_u128(*token),
            last: 10,
            increment: 1,
            count: 10,
            key_format: String::new(),
            server_prefix: String::new(),
            suggested: 0,
        });
        Answer { granted: granted.collect(), returned: 0 }
    }

    /// An answer with a row for each ask, and a lease of its own in each row, is one to serve from.
    #[test]
    fn an_answer_has_one_lease_for_each_ask() {
        let ask = |id| Ask { id: Id(id), count: 10, purpose: Purpose::Stock };
        let plan = Plan { asks: vec![ask(0), ask(1)], ..Plan::default() };
        assert!(answer(&[(0, 7), (1, 8)]).fits(&plan));
        assert!(answer(&[(1, 7), (0, 8)]).fits(&plan));
        assert!(answer(&[]).fits(&Plan::default()));
        for rows in [
            &[][..],
            &[(0, 7)],
            &[(0, 7), (2, 8)],
            &[(0, 7), (0, 8)],
            &[(0, 7), (1, 7)],
            &[(0, 7), (1, 8), (1, 9)],
        ] {
            assert!(!answer(rows).fits(&plan), "{rows:?}");
        }
    }
}
