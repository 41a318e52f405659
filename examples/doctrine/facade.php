<?php
// Doctrine's own strategy SEQUENCE, unchanged, with blocks from hilo. The server comes from PGHOST, PGPORT, PGUSER and PGDATABASE.

use Doctrine\DBAL\DriverManager;
use Doctrine\ORM\Configuration;
use Doctrine\ORM\EntityManager;
use Doctrine\ORM\Mapping as ORM;
use Doctrine\ORM\Mapping\Driver\AttributeDriver;

require 'Doctrine/ORM/autoload.php'; // Debian's package; with composer, vendor/autoload.php

#[ORM\Entity]
#[ORM\Table(name: 'orders')]
class Order
{
    #[ORM\Id]
    #[ORM\GeneratedValue(strategy: 'SEQUENCE')]
    #[ORM\SequenceGenerator(sequenceName: 'orders', allocationSize: 20)]
    #[ORM\Column(type: 'bigint')]
    public ?int $id = null;

    #[ORM\Column(type: 'text')]
    public string $customer;

    public function __construct(string $customer)
    {
        $this->customer = $customer;
    }
}

function check(bool $holds, string $otherwise): void
{
    if (!$holds) {
        throw new RuntimeException($otherwise);
    }
}

[$rows, $processes] = [(int) ($argv[1] ?? 1000), (int) ($argv[2] ?? 2)];
$configuration = new Configuration();
$configuration->setMetadataDriverImpl(new AttributeDriver([]));
$configuration->setProxyDir(sys_get_temp_dir());
$configuration->setProxyNamespace('Proxies');
$connection = DriverManager::getConnection([
    'driver' => 'pdo_pgsql',
    'host' => getenv('PGHOST'),
    'port' => getenv('PGPORT'),
    'user' => getenv('PGUSER'),
    'dbname' => getenv('PGDATABASE'),
], $configuration);

// One of the processes: it knows nothing of hilo.
if ($processes === 0) {
    $connection->executeStatement("SELECT set_config('search_path', 'doctrine, ' || current_setting('search_path'), false)");
    $manager = new EntityManager($connection, $configuration);
    for ($number = 1; $number <= $rows; $number++) {
        $manager->persist(new Order("Doctrine $number"));
        if ($number % 100 === 0) {
            $manager->flush();
            $manager->clear();
        }
    }
    $manager->flush();
    exit(0);
}

$connection->executeStatement("SELECT hilo_create('orders', if_not_exists => true)");
$connection->executeStatement("SELECT hilo_alter('orders', block_size => 20)");
$connection->executeStatement('CREATE SCHEMA doctrine');
$connection->executeStatement("SELECT hilo_facade('doctrine', 'doctrine')");
$connection->executeStatement("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT hilo_nextval('orders'), customer text NOT NULL)");
$others = [];
for ($number = 0; $number < $processes; $number++) {
    $others[] = proc_open([PHP_BINARY, __FILE__, (string) $rows, '0'], [], $pipes);
}
for ($number = 0; $number < $rows; $number++) {
    $connection->executeStatement("INSERT INTO orders (customer) VALUES ('SQL')");
}
foreach ($others as $other) {
    check(proc_close($other) === 0, 'a process failed');
}
$count = $connection->fetchOne('SELECT count(*) FROM orders');
check($count === $rows * ($processes + 1), "$count rows");

echo "Doctrine: $count rows by $processes processes and SQL, no id twice\n";
