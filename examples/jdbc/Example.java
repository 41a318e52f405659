// hilo with JDBC. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE; the driver reaches it by TCP only.
//
//     java -cp postgresql.jar Example.java

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;

class Example {
    static final String INSERT = "INSERT INTO orders (customer) VALUES (?)";

    public static void main(String[] arguments) throws SQLException {
        var ids = new ArrayList<Long>();
        try (var connection = connect("")) {
            try (var statement = connection.createStatement()) {
                statement.execute("SELECT hilo_create('orders', if_not_exists => true)");
                statement.execute(
                        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)");
            }
            ids.addAll(insertOne(connection));
            ids.addAll(insertBatch(connection));
            ids.addAll(insertAhead(connection));
        }
        // The driver can also make one statement of a batch.
        try (var connection = connect("&reWriteBatchedInserts=true")) {
            ids.addAll(insertBatch(connection));
            check(new HashSet<>(ids).size() == 2101 && ids.size() == 2101, "an id came twice");
            check(count(connection, ids) == 2101, "rows are missing");
        }
        System.out.println("JDBC: 2101 rows, no id twice");
    }

    static Connection connect(String options) throws SQLException {
        var url = "jdbc:postgresql://%s:%s/%s?user=%s%s".formatted(
                System.getenv("PGHOST"), System.getenv("PGPORT"), System.getenv("PGDATABASE"), System.getenv("PGUSER"), options);
        return DriverManager.getConnection(url);
    }

    static List<Long> insertOne(Connection connection) throws SQLException {
        try (var insert = connection.prepareStatement(INSERT, Statement.RETURN_GENERATED_KEYS)) {
            insert.setString(1, "Ada");
            insert.executeUpdate();
            return longs(insert.getGeneratedKeys());
        }
    }

    static List<Long> insertBatch(Connection connection) throws SQLException {
        try (var insert = connection.prepareStatement(INSERT, new String[] {"id"})) {
            for (var number = 0; number < 1000; number++) {
                insert.setString(1, "bulk " + number);
                insert.addBatch();
            }
            insert.executeBatch();
            return longs(insert.getGeneratedKeys());
        }
    }

    /** Takes the ids first; hilo_nextrange takes a bigint, which is what setLong sends. */
    static List<Long> insertAhead(Connection connection) throws SQLException {
        var ids = new ArrayList<Long>();
        try (var take = connection.prepareStatement("SELECT first, last, increment FROM hilo_nextrange(?, ?)")) {
            take.setString(1, "orders");
            take.setLong(2, 100);
            try (var taken = take.executeQuery()) {
                taken.next();
                for (var id = taken.getLong(1); id <= taken.getLong(2); id += taken.getLong(3)) {
                    ids.add(id);
                }
            }
        }
        try (var insert = connection.prepareStatement("INSERT INTO orders SELECT id, 'ahead' FROM unnest(?) AS id")) {
            insert.setArray(1, connection.createArrayOf("bigint", ids.toArray()));
            check(insert.executeUpdate() == 100, "rows are missing");
        }
        return ids;
    }

    static long count(Connection connection, List<Long> ids) throws SQLException {
        try (var count = connection.prepareStatement("SELECT count(*) FROM orders WHERE id = ANY(?)")) {
            count.setArray(1, connection.createArrayOf("bigint", ids.toArray()));
            return longs(count.executeQuery()).get(0);
        }
    }

    static List<Long> longs(ResultSet rows) throws SQLException {
        var values = new ArrayList<Long>();
        while (rows.next()) {
            values.add(rows.getLong(1));
        }
        return values;
    }

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalStateException(otherwise);
        }
    }
}
