<?php

use Doctrine\ORM\Mapping as ORM;

#[ORM\Entity]
#[ORM\Table(name: 'orders')]
class Order
{
    #[ORM\Id]
    #[ORM\GeneratedValue(strategy: 'CUSTOM')]
    #[ORM\CustomIdGenerator(class: HiloGenerator::class)]
    #[ORM\Column(type: 'bigint')]
    public ?int $id = null;

    #[ORM\Column(type: 'text')]
    public string $customer;

    public function __construct(string $customer)
    {
        $this->customer = $customer;
    }
}
