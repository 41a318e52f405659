<?php
// hilo with Doctrine. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\Configuration;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\Mapping\Driver\AttributeDriver;
use Doctrine\ORM\Tools\SchemaTool;

require 'Doctrine/ORM/autoload.php'; // Debian's package; with composer, vendor/autoload.php
require __DIR__ . '/HiloGenerator.php';
require __DIR__ . '/Invoice.php';
require __DIR__ . '/Order.php';

function check(bool $holds, string $otherwise): void
{
    if (!$holds) {
        throw new RuntimeException($otherwise);
    }
}

$configuration = new Configuration();
$configuration->setMetadataDriverImpl(new AttributeDriver([__DIR__]));
$configuration->setProxyDir(sys_get_temp_dir());
$configuration->setProxyNamespace('Proxies');
$connection = DriverManager::getConnection([
    'driver' => 'pdo_pgsql',
    'host' => getenv('PGHOST'),
    'port' => getenv('PGPORT'),
    'user' => getenv('PGUSER'),
    'dbname' => getenv('PGDATABASE'),
], $configuration);
$manager = new EntityManager($connection, $configuration);

$connection->executeStatement("SELECT hilo_create('orders', if_not_exists => true)");
$schema = new SchemaTool($manager);
$classes = [$manager->getClassMetadata(Order::class)];
$schema->createSchema($classes);
// The default numbers rows that others insert; Doctrine takes its ids itself.
$connection->executeStatement("ALTER TABLE orders ALTER COLUMN id SET DEFAULT hilo_nextval('orders')");
// The schema tool does not understand the default, and would drop it. Leave that out of a migration.
$update = $schema->getUpdateSchemaSql($classes);
check(end($update) === 'ALTER TABLE orders ALTER id DROP DEFAULT', implode('; ', $update));

$orders = [];
for ($number = 0; $number < 1000; $number++) {
    $manager->persist($orders[] = new Order("bulk $number"));
}
$manager->flush();
$manager->clear();
$ids = array_map(fn ($order) => $order->id, $orders);
foreach (array_slice($orders, 0, 20) as $order) {
    check($manager->find(Order::class, $order->id)->customer === $order->customer, "order $order->id");
}

// Without the entity.
$ids[] = $connection->fetchOne("INSERT INTO orders (customer) VALUES ('Ada') RETURNING id");
check(count(array_unique($ids)) === 1001, 'an id came twice');

// A key that the strategy IDENTITY has made. The sequence gets the name under which the generator looks for it.
$connection->executeStatement('CREATE TABLE invoices (id bigserial PRIMARY KEY)');
$insert = fn () => $connection->fetchOne('INSERT INTO invoices DEFAULT VALUES RETURNING id');
$up = "SELECT hilo_adopt('invoices', 'id', 'invoices')";
$down = "SELECT hilo_release('invoices', 'id', NULL)";
foreach ([$up, $down, $up] as $number => $migration) {
    $connection->executeStatement($migration);
    check($insert() === $number + 1, 'the key does not continue');
}
$manager->persist($invoice = new Invoice());
$manager->flush();
check($invoice->id === 4, "invoice $invoice->id");
$update = $schema->getUpdateSchemaSql([$manager->getClassMetadata(Invoice::class)], true);
check(end($update) === 'ALTER TABLE invoices ALTER id DROP DEFAULT', implode('; ', $update));

echo "Doctrine: 1001 rows, no id twice\n";
