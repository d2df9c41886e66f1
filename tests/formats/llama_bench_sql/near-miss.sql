CREATE TABLE IF NOT EXISTS llama (id INTEGER, name TEXT, wool_kg REAL);
INSERT INTO llama (id, name, wool_kg) VALUES (1, 'Dolly', 3.1);
