<?php
// Ids from hilo for Doctrine: copy this file into your project. The sequence has the name of the entity's table.

use Doctrine\ORM\EntityManagerInterface;
use Doctrine\ORM\Id\AbstractIdGenerator;

final class HiloGenerator extends AbstractIdGenerator
{
    /** How many ids one query takes; those that a process has not used when it ends are not served again. */
    private const ALLOCATION = 20;

    /** @var array<string, list<int>> the ids that are left, by sequence */
    private array $left = [];

    public function generateId(EntityManagerInterface $manager, $entity): int
    {
        $sequence = $manager->getClassMetadata($entity::class)->getTableName();
        if (empty($this->left[$sequence])) {
            $this->left[$sequence] = $manager->getConnection()->fetchFirstColumn(
                'SELECT hilo_nextvals(?, ' . self::ALLOCATION . ')',
                [$sequence],
            );
        }
        return array_shift($this->left[$sequence]);
    }
}
