<?php

use Doctrine\ORM\Mapping as ORM;

/** Began with Doctrine's strategy IDENTITY. */
#[ORM\Entity]
#[ORM\Table(name: 'invoices')]
class Invoice
{
    #[ORM\Id]
    #[ORM\GeneratedValue(strategy: 'CUSTOM')]
    #[ORM\CustomIdGenerator(class: HiloGenerator::class)]
    #[ORM\Column(type: 'bigint')]
    public ?int $id = null;
}
