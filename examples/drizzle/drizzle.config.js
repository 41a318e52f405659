const { PGHOST, PGPORT, PGUSER, PGDATABASE } = process.env;

export default {
  dialect: "postgresql",
  schema: "./schema.js",
  dbCredentials: { host: PGHOST, port: Number(PGPORT), user: PGUSER, database: PGDATABASE, ssl: false },
  // hilo's views are not the application's: without this line, push would drop them.
  tablesFilter: ["!hilo_*"],
};
