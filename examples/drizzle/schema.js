import { sql } from "drizzle-orm";
import { bigint, pgTable, text } from "drizzle-orm/pg-core";

export const orders = pgTable("orders", {
  id: bigint({ mode: "number" }).primaryKey().default(sql`hilo_nextval('orders'::hilo_sequence)`),
  customer: text().notNull(),
});

// Began as a bigserial.
export const invoices = pgTable("invoices", {
  id: bigint({ mode: "number" }).primaryKey().default(sql`hilo_nextval('invoices_id_seq'::hilo_sequence)`),
});
