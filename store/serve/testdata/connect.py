"""Drives the server with clickhouse-connect. Prints one line "ok NAME" per step; any failure ends with a traceback."""
import sys
import threading
import time
import uuid

import clickhouse_connect
from clickhouse_connect.driver.exceptions import DatabaseError

host, port = sys.argv[1].rsplit(":", 1)


def connect(**kw):
    return clickhouse_connect.get_client(host=host, port=int(port), **kw)


def step(name):
    print("ok", name, flush=True)


client = connect(compress="lz4")
assert client.ping()
step("ping")

r = client.query("SELECT {a:String} AS a, {n:UInt64} + 1 AS n, {l:Array(String)} AS l", parameters={"a": "it's\t\\ \n日本", "n": 41, "l": ["x", "it's"]})
assert r.result_rows == [("it's\t\\ \n日本", 42, ["x", "it's"])], r.result_rows
assert r.query_id and "read_rows" in r.summary, r.summary
step("query with params")

client.command("CREATE TABLE py (n UInt64, s String, l LowCardinality(String), m Map(String, UInt64), t DateTime('UTC'), z Nullable(String)) ENGINE = MergeTree ORDER BY n")
rows = [[i, f"it's {i}\n", f"l{i % 3}", {"k": i}, 1709208000 + i, None if i % 2 else "z"] for i in range(10000)]
for method in ("lz4", "zstd", "gzip", "br", None):
    try:
        c = connect(compress=method if method else False)
    except Exception as e:  # br needs a module of its own
        if method == "br":
            continue
        raise
    s = c.insert("py", rows, column_names=["n", "s", "l", "m", "t", "z"])
    got = c.query("SELECT count(), sum(n), uniqExact(s), any(toTypeName(m)) FROM py")
    assert got.result_rows == [(10000, 49995000, 10000, "Map(String, UInt64)")], (method, got.result_rows)
    back = c.query("SELECT * FROM py WHERE n IN (3, 4) ORDER BY n").result_rows
    assert [(b[0], b[1], b[2], b[3], b[5]) for b in back] == [(3, "it's 3\n", "l0", {"k": 3}, None), (4, "it's 4\n", "l1", {"k": 4}, "z")], (method, back)
    c.command("TRUNCATE TABLE py")
step("insert, every compression")

client.raw_insert("py", column_names=["n", "s"], insert_block="1,a\n2,b\n", fmt="CSV")
assert client.command("SELECT groupArray(s) FROM py") is not None
assert client.query("SELECT count() FROM py").first_row == (2,)
step("raw insert")

total, blocks = 0, 0
with client.query_row_block_stream("SELECT number, toString(number) FROM numbers(500000)") as stream:
    for block in stream:
        blocks += 1
        total += sum(row[0] for row in block)
assert total == 499999 * 250000 and blocks > 1, (total, blocks)
step("stream")

for sql, code in (("SELECT * FROM no_such_table", "60"), ("SELEC 1", "62")):
    try:
        client.query(sql)
        raise AssertionError("no error for " + sql)
    except DatabaseError as e:
        assert f"code: {code}" in str(e).lower(), str(e)
step("error")

try:
    with client.query_row_block_stream("SELECT number, throwIf(number = 3000000) FROM numbers(4000000)", settings={"max_threads": 1}) as stream:
        for block in stream:
            pass
    raise AssertionError("no error in a stream that fails")
except Exception as e:
    assert "throwIf" in str(e) or "395" in str(e) or "NON_ZERO" in str(e), repr(e)
step("error in stream")

ident = "py-" + uuid.uuid4().hex
failed = []


def run():
    try:
        connect().query("SELECT sum(sipHash64(number)) FROM numbers(1000000000000)", settings={"query_id": ident})
    except Exception as e:
        failed.append(str(e))


thread = threading.Thread(target=run)
thread.start()
deadline = time.time() + 20
while thread.is_alive() and time.time() < deadline:
    client.command(f"KILL QUERY WHERE query_id = '{ident}'")
    thread.join(0.05)
assert failed and "394" in failed[0], failed
step("cancel")

assert client.query("SELECT currentDatabase()").first_row == ("default",)
s = connect(session_id="py-session")
s.command("SET max_block_size = 777")
assert s.command("SELECT getSetting('max_block_size')") == 777
step("session")
