// hilo with the Hi/Lo generators of Hibernate 3.6, unchanged. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.hibernate.SessionFactory;
import org.hibernate.Session;
import org.hibernate.cfg.Configuration;

public class Example {
    static final int SIZE = 20;

    /** A generator as it stands in a mapping, the facade for it, and the table that it fills. */
    enum Generator {
        POOLED("hibernate-pooled-old", "orders", "org.hibernate.id.enhanced.SequenceStyleGenerator",
            "sequence_name=orders", "increment_size=" + SIZE, "optimizer=pooled"),
        TABLE("hibernate-table-old", "orders", "org.hibernate.id.enhanced.TableGenerator",
            "segment_value=orders", "increment_size=" + SIZE, "optimizer=pooled"),
        SEQHILO("hibernate-legacy-hilo", "bills", "seqhilo", "sequence=hibernate_unique_key", "max_lo=" + (SIZE - 1)),
        LEGACY("hibernate-legacy-hilo", "bills", "hilo", "max_lo=" + (SIZE - 1));

        final String facade;
        final String table;
        final String mapping;

        Generator(String facade, String table, String name, String... parameters) {
            this.facade = facade;
            this.table = table;
            StringBuilder all = new StringBuilder();
            for (String parameter : parameters) {
                String[] parts = parameter.split("=");
                all.append("<param name=\"" + parts[0] + "\">" + parts[1] + "</param>");
            }
            mapping = "<?xml version=\"1.0\"?>"
                + "<!DOCTYPE hibernate-mapping PUBLIC \"-//Hibernate/Hibernate Mapping DTD 3.0//EN\""
                + " \"http://www.hibernate.org/dtd/hibernate-mapping-3.0.dtd\">"
                + "<hibernate-mapping><class name=\"Example$Row\" table=\"" + table + "\" lazy=\"false\">"
                + "<id name=\"id\" type=\"long\"><generator class=\"" + name + "\">" + all + "</generator></id>"
                + "<property name=\"customer\" type=\"string\"/></class></hibernate-mapping>";
        }
    }

    public static class Row {
        private Long id;
        private String customer;

        public Long getId() { return id; }
        public void setId(Long id) { this.id = id; }
        public String getCustomer() { return customer; }
        public void setCustomer(String customer) { this.customer = customer; }
    }

    static String url(String schemas) {
        String port = System.getenv("PGPORT");
        return "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + port + "/" + System.getenv("PGDATABASE")
            + (schemas.isEmpty() ? "" : "?currentSchema=" + schemas);
    }

    /** Writes rows as any program with this mapping does; knows nothing of hilo. */
    static List<Long> write(Generator generator, int rows) {
        Thread.currentThread().setContextClassLoader(Example.class.getClassLoader());
        Configuration configuration = new Configuration()
            .setProperty("hibernate.dialect", "org.hibernate.dialect.PostgreSQLDialect")
            .setProperty("hibernate.connection.driver_class", "org.postgresql.Driver")
            .setProperty("hibernate.connection.url", url("\"" + generator.facade + "\",public,hilo"))
            .setProperty("hibernate.connection.username", System.getenv("PGUSER"))
            .setProperty("hibernate.temp.use_jdbc_metadata_defaults", "false")
            .addXML(generator.mapping);
        List<Long> ids = new ArrayList<>();
        SessionFactory factory = configuration.buildSessionFactory();
        for (int flush = 0; flush < rows; flush += 50) {
            Session session = factory.openSession();
            session.beginTransaction();
            for (int number = flush; number < Math.min(rows, flush + 50); number++) {
                Row row = new Row();
                row.setCustomer(generator + " " + number);
                session.save(row);
                ids.add(row.getId());
            }
            session.getTransaction().commit();
            session.close();
        }
        factory.close();
        return ids;
    }

    static void work(int rows) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(Generator.values().length);
        List<Future<List<Long>>> all = new ArrayList<>();
        for (Generator generator : Generator.values()) {
            all.add(threads.submit((Callable<List<Long>>) () -> write(generator, rows)));
        }
        threads.shutdown();
        for (Future<List<Long>> ids : all) {
            check(ids.get().size() == rows, "rows are missing");
        }
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }

    static void prepare(Connection connection) throws Exception {
        try (var statement = connection.createStatement()) {
            statement.execute("SELECT hilo_create('orders', if_not_exists => true)");
            statement.execute("SELECT hilo_alter('orders', block_size => " + SIZE + ")");
            statement.execute("SELECT hilo_create('hibernate_unique_key', start_value => " + SIZE
                + ", block_size => " + SIZE + ")");
            for (String table : new String[] {"orders", "bills"}) {
                statement.execute("CREATE TABLE " + table + " (id bigint PRIMARY KEY, customer text NOT NULL)");
            }
            for (String client : new String[] {
                    "hibernate-pooled-old", "hibernate-table-old", "hibernate-legacy-hilo"}) {
                statement.execute("CREATE SCHEMA \"" + client + "\"");
                statement.execute("SELECT hilo_facade('" + client + "', '" + client + "')");
            }
        }
    }

    /** Rows by each generator, in each of so many processes. */
    public static void main(String[] arguments) throws Exception {
        int rows = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 400;
        int processes = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 2;
        if (processes == 0) {
            work(rows);
            return;
        }
        Connection connection = DriverManager.getConnection(url(""), System.getenv("PGUSER"), "");
        prepare(connection);
        List<Process> others = new ArrayList<>();
        for (int number = 0; number < processes; number++) {
            others.add(new ProcessBuilder("java", "--add-opens", "java.base/java.lang=ALL-UNNAMED",
                "-cp", System.getProperty("java.class.path"), "Example.java", "" + rows, "0").inheritIO().start());
        }
        for (Process other : others) {
            check(other.waitFor() == 0, "a process failed");
        }
        try (var statement = connection.createStatement();
                ResultSet counted = statement.executeQuery("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM bills)")) {
            counted.next();
            check(counted.getLong(1) == 2L * rows * processes, "orders has " + counted.getLong(1));
            check(counted.getLong(2) == 2L * rows * processes, "bills has " + counted.getLong(2));
        }
        System.out.println("Hibernate: " + 4 * rows * processes + " rows by " + processes + " processes, no id twice");
    }
}
