--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: hilo; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS hilo WITH SCHEMA public;


--
-- Name: EXTENSION hilo; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION hilo IS 'Hi/Lo sequences inside the database: dense, fast, explained';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: invoices; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.invoices (
    id integer DEFAULT public.hilo_nextval('invoices'::public.hilo_sequence) NOT NULL,
    key text DEFAULT public.hilo_nextkey('tenants/42/Größe'::public.hilo_sequence)
);


ALTER TABLE public.invoices OWNER TO postgres;

--
-- Name: orders; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders (
    id bigint DEFAULT public.hilo_nextval('orders'::public.hilo_sequence) NOT NULL,
    customer text
);


ALTER TABLE public.orders OWNER TO postgres;

--
-- Data for Name: free_range; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.free_range (sequence, node, epoch, first_index, end_index) FROM stdin;
7284686209744129547	0	1	513	519
4055257997919369127	0	2	116	122
\.


--
-- Data for Name: gap; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.gap (sequence, node, first_value, last_value, count, reason, recorded_at) FROM stdin;
7284686209744129547	0	101	498	398	crash	2026-11-21 12:40:51.017649+00
4055257997919369127	0	5001	5100	100	crash	2026-11-21 12:40:51.023085+00
1066376845543708124	0	-61	-2158	700	crash	2026-11-21 12:40:51.026912+00
\.


--
-- Data for Name: position; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo."position" (sequence, node, epoch, base, next_index, settled_index, incarnation, nodes, stripe, system_id, timeline) FROM stdin;
6247059578832875853	0	1	1	0	0	0	1	1024	0	0
4055257997919369127	0	2	5000	125	125	0	1	1000	7710603807993518979	1
1066376845543708124	0	1	-1	726	726	0	1	1020	7710603807993518979	1
5242415367401153081	0	1	1000	114	1	2412856124513208032	1	1024	7710603807993518979	1
6707854496017945660	0	1	1	114	1	2412856124513208032	1	1024	7710603807993518979	1
7771309711644254563	0	1	1	2034	250	2412856124513208032	1	1024	7710603807993518979	1
4020651595839185276	0	1	5	114	1	2412856124513208032	1	1024	7710603807993518979	1
7284686209744129547	0	1	1	522	522	0	1	1024	7710603807993518979	1
\.


--
-- Data for Name: privilege; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.privilege (sequence, grantee, privilege, grantor) FROM stdin;
7284686209744129547	shop_clerk	USAGE	postgres
7284686209744129547	public	SELECT	postgres
5242415367401153081	"Shop Reader"	SELECT	postgres
\.


--
-- Data for Name: sequence; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.sequence (id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered, block_size, slice_size, key_format, owner, created_at) FROM stdin;
7284686209744129547	orders	bigint	1	1	1	9223372036854775807	f	f	\N	\N	\N	postgres	2026-11-21 12:40:50.630259+00
5242415367401153081	invoices	integer	1000	1	1	2147483647	f	t	\N	\N	\N	postgres	2026-11-21 12:40:50.630791+00
1066376845543708124	falling	bigint	-1	-3	-9223372036854775808	-1	f	f	20	\N	\N	postgres	2026-11-21 12:40:50.630857+00
7771309711644254563	wheel	bigint	1	1	1	100	t	f	\N	\N	\N	postgres	2026-11-21 12:40:50.630892+00
6707854496017945660	tenants/42/Größe	bigint	1	1	1	9223372036854775807	f	f	\N	\N	T-{value:06}	postgres	2026-11-21 12:40:50.630951+00
4055257997919369127	set	bigint	1	1	1	9223372036854775807	f	f	100	\N	\N	postgres	2026-11-21 12:40:50.631277+00
6247059578832875853	unused	bigint	1	1	1	9223372036854775807	f	f	\N	\N	\N	postgres	2026-11-21 12:40:50.631328+00
4020651595839185276	owned	bigint	5	1	1	9223372036854775807	f	f	\N	\N	\N	shop_owner	2026-11-21 12:40:50.648836+00
\.


--
-- Data for Name: invoices; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.invoices (id, key) FROM stdin;
1000	T-000001
1001	T-000002
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.orders (id, customer) FROM stdin;
1	Ada
2	Ada
3	Ada
4	Ada
5	Ada
6	Ada
7	Ada
8	Ada
9	Ada
10	Ada
11	Ada
12	Ada
13	Ada
14	Ada
15	Ada
16	Ada
17	Ada
18	Ada
19	Ada
20	Ada
21	Ada
22	Ada
23	Ada
24	Ada
25	Ada
26	Ada
27	Ada
28	Ada
29	Ada
30	Ada
31	Ada
32	Ada
33	Ada
34	Ada
35	Ada
36	Ada
37	Ada
38	Ada
39	Ada
40	Ada
41	Ada
42	Ada
43	Ada
44	Ada
45	Ada
46	Ada
47	Ada
48	Ada
49	Ada
50	Ada
51	Ada
52	Ada
53	Ada
54	Ada
55	Ada
56	Ada
57	Ada
58	Ada
59	Ada
60	Ada
61	Ada
62	Ada
63	Ada
64	Ada
65	Ada
66	Ada
67	Ada
68	Ada
69	Ada
70	Ada
71	Ada
72	Ada
73	Ada
74	Ada
75	Ada
76	Ada
77	Ada
78	Ada
79	Ada
80	Ada
81	Ada
82	Ada
83	Ada
84	Ada
85	Ada
86	Ada
87	Ada
88	Ada
89	Ada
90	Ada
91	Ada
92	Ada
93	Ada
94	Ada
95	Ada
96	Ada
97	Ada
98	Ada
99	Ada
100	Ada
\.


--
-- Name: invoices invoices_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.invoices
    ADD CONSTRAINT invoices_pkey PRIMARY KEY (id);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: SCHEMA public; Type: ACL; Schema: -; Owner: pg_database_owner
--

GRANT CREATE ON SCHEMA public TO shop_owner;


--
-- PostgreSQL database dump complete
--


