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
-- Name: gone; Type: TABLE; Schema: public; Owner: shop_owner
--

CREATE TABLE public.gone (
    id integer NOT NULL
);


ALTER TABLE public.gone OWNER TO shop_owner;

--
-- Name: gone_id_seq; Type: SEQUENCE; Schema: public; Owner: shop_owner
--

CREATE SEQUENCE public.gone_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.gone_id_seq OWNER TO shop_owner;

--
-- Name: gone_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: shop_owner
--

ALTER SEQUENCE public.gone_id_seq OWNED BY public.gone.id;


--
-- Name: goods; Type: TABLE; Schema: public; Owner: shop_owner
--

CREATE TABLE public.goods (
    id integer DEFAULT public.hilo_nextval('goods'::public.hilo_sequence) NOT NULL
);


ALTER TABLE public.goods OWNER TO shop_owner;

--
-- Name: invoices; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.invoices (
    id integer DEFAULT public.hilo_nextval('invoices'::public.hilo_sequence) NOT NULL,
    key text DEFAULT public.hilo_nextkey('tickets'::public.hilo_sequence)
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
-- Name: gone id; Type: DEFAULT; Schema: public; Owner: shop_owner
--

ALTER TABLE ONLY public.gone ALTER COLUMN id SET DEFAULT nextval('public.gone_id_seq'::regclass);


--
-- Data for Name: default_privilege; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.default_privilege (owner, pattern, grantee, privilege) FROM stdin;
postgres	sho%	shop_clerk	USAGE
\.


--
-- Data for Name: free_range; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.free_range (sequence, node, epoch, first_index, end_index, incarnation) FROM stdin;
2352890345378428142	0	1	6206	6207	0
2352890345378428142	0	1	6307	6327	0
\.


--
-- Data for Name: gap; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.gap (sequence, node, first_value, last_value, count, reason, recorded_at, name, released_from) FROM stdin;
2352890345378428142	0	49	6200	6152	crash	2026-11-23 16:24:50.064858+00	\N	\N
1581863354022894720	0	1	82	82	crash	2026-11-23 16:24:50.071419+00	\N	\N
1551824784617181203	0	-4	-358	119	crash	2026-11-23 16:24:50.074982+00	\N	\N
8136879643875959700	0	1	82	82	crash	2026-11-23 16:24:50.077524+00	\N	\N
540492659813514520	0	1	82	82	crash	2026-11-23 16:24:50.077598+00	\N	\N
0	0	6	90	85	crash	2026-11-23 16:24:50.075627+00	gone	public.gone.id
2352890345378428142	0	6328	6347	20	revoked	2026-11-23 16:24:50.10598+00	\N	\N
\.


--
-- Data for Name: lease; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.lease (lease, sequence, node, epoch, first_index, end_index, next_index, first_value, last_value, increment, holder, role, client_addr, leased_at, expires_at, ended, ended_at, due_at, system_id, timeline, passed) FROM stdin;
7cfa9a15-fee3-4c2a-a2e9-b1e25d92ce8d	2352890345378428142	0	1	6207	6257	6207	6208	6257	1	till 1	postgres	\N	2026-11-23 16:24:50.09875+00	\N	\N	\N	\N	7711403487552653370	1	f
a1ba9c09-d160-410f-bc4e-d4f286b4eba8	2352890345378428142	0	1	6257	6297	6257	6258	6297	1	till 2	postgres	\N	2026-11-23 16:24:50.099615+00	2126-11-23 16:24:50.099615+00	\N	\N	2126-11-23 16:24:50.099615+00	7711403487552653370	1	f
\.


--
-- Data for Name: position; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo."position" (sequence, node, epoch, base, next_index, settled_index, incarnation, nodes, stripe, system_id, timeline, skip) FROM stdin;
8136879643875959700	0	1	1	82	82	0	1	1024	7711403487552653370	1	1048576
540492659813514520	0	1	1	82	82	0	1	1024	7711403487552653370	1	1048576
8622902697711050935	0	1	1000	5	5	0	1	1024	7711403487552653370	1	0
2352890345378428142	0	1	1	6347	6347	0	1	1000	7711403487552653370	1	1048576
1581863354022894720	0	1	1	84	84	0	1	1024	7711403487552653370	1	1048576
1551824784617181203	0	1	-1	121	121	0	1	1020	7711403487552653370	1	1048576
\.


--
-- Data for Name: privilege; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.privilege (sequence, grantee, privilege, grantor) FROM stdin;
2352890345378428142	shop_clerk	USAGE	postgres
2352890345378428142	public	SELECT	postgres
8622902697711050935	"Shop Reader"	SELECT	postgres
\.


--
-- Data for Name: sequence; Type: TABLE DATA; Schema: hilo; Owner: postgres
--

COPY hilo.sequence (id, name, data_type, start_value, increment, min_value, max_value, cycle, ordered, block_size, slice_size, key_format, owner, created_at, owned_by, gapless) FROM stdin;
2352890345378428142	orders	bigint	1	1	1	9223372036854775807	f	f	100	\N	\N	postgres	2026-11-23 16:24:49.431226+00	\N	f
8622902697711050935	invoices	integer	1000	1	1	2147483647	f	f	\N	\N	\N	postgres	2026-11-23 16:24:49.431924+00	\N	t
1581863354022894720	tickets	bigint	1	1	1	9223372036854775807	f	f	\N	\N	T-{value:06}	postgres	2026-11-23 16:24:49.431971+00	\N	f
1551824784617181203	falling	bigint	-1	-3	-9223372036854775808	-1	f	f	20	\N	\N	postgres	2026-11-23 16:24:49.432012+00	\N	f
540492659813514520	unused	bigint	1	1	1	9223372036854775807	f	f	\N	\N	\N	postgres	2026-11-23 16:24:49.432035+00	\N	f
8136879643875959700	goods	integer	1	1	1	2147483647	f	f	\N	\N	\N	shop_owner	2026-11-23 16:24:49.440919+00	public.goods.id	f
\.


--
-- Data for Name: gone; Type: TABLE DATA; Schema: public; Owner: shop_owner
--

COPY public.gone (id) FROM stdin;
1
2
3
4
5
91
\.


--
-- Data for Name: goods; Type: TABLE DATA; Schema: public; Owner: shop_owner
--

COPY public.goods (id) FROM stdin;
1
2
3
4
5
6
7
8
9
10
11
12
\.


--
-- Data for Name: invoices; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.invoices (id, key) FROM stdin;
1000	T-000001
1001	T-000002
1002	T-000003
1003	T-000083
1004	T-000084
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
101	Ada
102	Ada
103	Ada
104	Ada
105	Ada
106	Ada
107	Ada
108	Ada
109	Ada
110	Ada
111	Ada
112	Ada
113	Ada
114	Ada
115	Ada
116	Ada
117	Ada
118	Ada
119	Ada
120	Ada
6201	Grace
6202	Grace
6203	Grace
6204	Grace
6205	Grace
\.


--
-- Name: gone_id_seq; Type: SEQUENCE SET; Schema: public; Owner: shop_owner
--

SELECT pg_catalog.setval('public.gone_id_seq', 92, false);


--
-- Name: gone gone_pkey; Type: CONSTRAINT; Schema: public; Owner: shop_owner
--

ALTER TABLE ONLY public.gone
    ADD CONSTRAINT gone_pkey PRIMARY KEY (id);


--
-- Name: goods goods_pkey; Type: CONSTRAINT; Schema: public; Owner: shop_owner
--

ALTER TABLE ONLY public.goods
    ADD CONSTRAINT goods_pkey PRIMARY KEY (id);


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
