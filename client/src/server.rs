//! The connection, and the one statement that carries out a plan.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hilo_core::protocol::{Done, Kind, Refusal, Row};
use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{CancelToken, Config, NoTls, Socket};
use uuid::Uuid;

use crate::Error;
use crate::engine::Plan;
use crate::fork::only_here;
use crate::refusal::{Report, report};
use crate::shared::Options;
use crate::store::Store;

/// The type that a [`Connector`] returns.
pub type Connecting<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// A connection of tokio-postgres, or one that a pool lends.
pub type Connection = Box<dyn Deref<Target = tokio_postgres::Client> + Send + Sync>;

/// The reason why a [`Connector`] has no connection.
pub type ConnectError = Box<dyn std::error::Error + Send + Sync>;

/// Where a client gets its connection, such as a pool. The client has one connection at a time,
/// keeps it until it breaks, and uses no prepared statement and no session state.
pub trait Connector: Send + Sync + 'static {
    /// A connection to the primary.
    fn connect(&self) -> Connecting<'_, Connection, ConnectError>;

    /// Cancels a statement that takes too long; by default without TLS.
    fn cancel(&self, token: CancelToken) -> Connecting<'_, (), tokio_postgres::Error> {
        Box::pin(async move { token.cancel_query(NoTls).await })
    }
}

/// Connects by itself, in the process of this generation.
pub struct Direct<T> {
    pub config: Config,
    pub tls: T,
    pub generation: u32,
}

impl<T> Connector for Direct<T>
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    fn connect(&self) -> Connecting<'_, Connection, ConnectError> {
        Box::pin(async {
            let (client, connection) = self.config.connect(self.tls.clone()).await?;
            let talk = async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "the connection has ended");
                }
            };
            let task = tokio::spawn(only_here(self.generation, talk));
            Ok(Box::new(Own { client, task }) as Connection)
        })
    }

    fn cancel(&self, token: CancelToken) -> Connecting<'_, (), tokio_postgres::Error> {
        let tls = self.tls.clone();
        Box::pin(async move { token.cancel_query(tls).await })
    }
}

/// A connection that ends with its client.
struct Own {
    client: tokio_postgres::Client,
    task: JoinHandle<Result<(), Error>>,
}

impl Deref for Own {
    type Target = tokio_postgres::Client;

    fn deref(&self) -> &tokio_postgres::Client {
        &self.client
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn unreachable(source: &(dyn std::error::Error + 'static)) -> Error {
    Error::Unreachable { source: Some(report(source)) }
}

/// A connection to the server.
pub struct Link {
    pub client: Connection,
    refill: String,
    revoke: String,
}

/// The outcome of each call of a plan, in its order.
pub type Answer = Vec<Result<Done, Arc<Report>>>;

impl Link {
    /// Connects, and looks where hilo is.
    pub async fn open(connector: &dyn Connector) -> Result<Link, Error> {
        let client = connector.connect().await.map_err(|error| unreachable(&*error))?;
        let found =
            client.query_typed(FIND_SCHEMA, &[]).await.map_err(|error| unreachable(&error))?;
        let schema: String = found.first().ok_or(Error::NotInstalled)?.get(0);
        Ok(Link {
            client,
            refill: REFILL.replace("SCHEMA", &schema),
            revoke: REVOKE.replace("SCHEMA", &schema),
        })
    }

    /// Carries out a plan in one transaction. Its results are committed: the future is ready only
    /// when the server is ready for the next query. Before that it returns an error, also one of
    /// the commit. `None`: the server has answered something else.
    pub async fn carry_out(
        &self,
        plan: &Plan,
        names: &[Arc<str>],
        options: &Options,
    ) -> Result<Option<Answer>, tokio_postgres::Error> {
        let returned: Vec<Uuid> = plan.returns.iter().map(|back| back.token).collect();
        let nexts: Vec<i64> = plan.returns.iter().map(|back| back.next).collect();
        let renewed: Vec<Uuid> = plan.renewals.iter().map(|(_, token)| *token).collect();
        let asked: Vec<&str> = names.iter().map(|name| &**name).collect();
        let counts: Vec<i64> = plan.asks.iter().map(|ask| ask.count).collect();
        let tokens: Vec<Uuid> = plan.asks.iter().map(|ask| ask.token).collect();
        let ttl = options.ttl.as_ref().map(Duration::as_secs_f64);
        let parameters: [(&(dyn ToSql + Sync), Type); 8] = [
            (&returned, Type::UUID_ARRAY),
            (&nexts, Type::INT8_ARRAY),
            (&renewed, Type::UUID_ARRAY),
            (&asked, Type::TEXT_ARRAY),
            (&counts, Type::INT8_ARRAY),
            (&tokens, Type::UUID_ARRAY),
            (&options.holder, Type::TEXT),
            (&ttl, Type::FLOAT8),
        ];
        let rows = self.client.query_typed(&self.refill, &parameters).await?;
        let named: Result<Vec<Uuid>, _> = rows.iter().map(|row| row.try_get(1)).collect();
        if !named?.into_iter().eq(plan.tokens()) {
            return Ok(None);
        }
        let mut answer = Answer::new();
        for row in &rows {
            let Some(outcome) = read(row)?.and_then(outcome) else { return Ok(None) };
            answer.push(outcome);
        }
        Ok(Some(answer))
    }

    /// Checks that the leases of a store are of this server, and ends those that nobody can use any
    /// more.
    pub async fn meet(&self, store: &Store) -> Result<(), Error> {
        let rows = self.client.query_typed(WHICH_SERVER, &[]).await;
        let rows = rows.map_err(|error| unreachable(&error))?;
        let row = rows.first().ok_or(Error::Answer("no database"))?;
        let server: i64 = row.get(0);
        let database: u32 = row.get(1);
        if let Some(before) = store.meet(server as u64, database)? {
            self.revoke(&before).await.map_err(|error| unreachable(&error))?;
            store.note_revoked()?;
        }
        Ok(())
    }

    /// Ends all leases of a holder.
    pub async fn revoke(&self, holder: &str) -> Result<(), tokio_postgres::Error> {
        self.client.query_typed(&self.revoke, &[(&holder, Type::TEXT)]).await.map(drop)
    }
}

/// A row of the statement. `None`: it is of no kind that this client knows.
fn read(row: &tokio_postgres::Row) -> Result<Option<Row>, tokio_postgres::Error> {
    let Some(kind) = Kind::from_name(row.try_get("kind")?) else { return Ok(None) };
    Ok(Some(Row {
        kind,
        name: None,
        lease: row.try_get::<_, Uuid>("lease")?.to_string(),
        first: row.try_get("first")?,
        last: row.try_get("last")?,
        increment: row.try_get("increment")?,
        count: row.try_get("count")?,
        expires_at: row.try_get("expires_at")?,
        key_format: row.try_get("key_format")?,
        server_prefix: row.try_get("server_prefix")?,
        suggested: row.try_get("suggested")?,
        sqlstate: row.try_get("sqlstate")?,
        message: row.try_get("message")?,
        detail: row.try_get("detail")?,
        hint: row.try_get("hint")?,
    }))
}

/// The content of a row. `None`: a column is missing.
pub fn outcome(row: Row) -> Option<Result<Done, Arc<Report>>> {
    let refused = |Refusal { sqlstate, message, detail, hint }| {
        let code = Some(SqlState::from_code(&sqlstate));
        Arc::new(Report { code, message, detail, hint })
    };
    Some(row.outcome()?.map_err(refused))
}

/// Finds the schema of hilo's functions, quoted. It is the extension's or, for hilo_lite, that of
/// the type for names.
const FIND_SCHEMA: &str = "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_namespace n \
     WHERE EXISTS (SELECT FROM pg_catalog.pg_proc p \
                    WHERE p.proname = 'hilo_refill' AND p.pronamespace = n.oid) \
       AND n.oid IN (SELECT e.extnamespace FROM pg_catalog.pg_extension e WHERE e.extname = 'hilo' \
         UNION ALL SELECT t.typnamespace FROM pg_catalog.pg_namespace i \
           JOIN pg_catalog.pg_class c ON c.relnamespace = i.oid \
           JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid \
           JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
          WHERE i.nspname = '_hilo' AND c.relname = 'hilo_definition' AND a.attname = 'name' \
            AND t.typname = 'hilo_sequence')";

const WHICH_SERVER: &str = "SELECT c.system_identifier, d.oid \
     FROM pg_catalog.pg_control_system() AS c, pg_catalog.pg_database AS d \
    WHERE d.datname = pg_catalog.current_database()";

/// The function is named with its schema, and gets all its arguments in its own types. So no
/// function that somebody else has defined, there or in the search path, is a better match.
const REFILL: &str = "\
SELECT r.kind, r.lease, r.first, r.last, r.increment, r.count, r.expires_at::text, r.key_format, \
       r.server_prefix, r.suggested, r.sqlstate, r.message, r.detail, r.hint \
    FROM SCHEMA.hilo_refill($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[], \
         $6::uuid[], $7::text, pg_catalog.make_interval(secs => $8::float8)) AS r";

const REVOKE: &str = "SELECT SCHEMA.hilo_lease_revoke(NULL::uuid, $1::text)";
