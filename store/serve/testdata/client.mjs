// Drives the server with @clickhouse/client. Prints one line "ok NAME" per step; any failure ends with an error.
import assert from 'node:assert'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [addr, modules] = process.argv.slice(2)
const require = createRequire(pathToFileURL(modules + '/'))
const { createClient, ClickHouseError } = require('@clickhouse/client')
const step = (name) => console.log('ok', name)

for (const compress of [false, true]) {
  const client = createClient({ url: 'http://' + addr, compression: { request: compress, response: compress } })

  assert.ok((await client.ping()).success)
  assert.ok((await client.ping({ select: true })).success)
  step('ping')

  const text = "it's\t\\ \n日本"
  const rs = await client.query({
    query: 'SELECT {a:String} AS a, {n:UInt32} + 1 AS n, {l:Array(String)} AS l',
    query_params: { a: text, n: 41, l: ['x', "it's"] },
  })
  const { data } = await rs.json()
  assert.deepStrictEqual(data.map((r) => ({ ...r, n: Number(r.n) })), [{ a: text, n: 42, l: ['x', "it's"] }])
  assert.ok(rs.query_id)
  step('query with params')

  await client.command({ query: 'CREATE OR REPLACE TABLE js (n UInt32, s String) ENGINE = MergeTree ORDER BY n' })
  const values = Array.from({ length: 10000 }, (_, n) => ({ n, s: "it's " + n }))
  const done = await client.insert({ table: 'js', values, format: 'JSONEachRow' })
  assert.ok(done.query_id && done.executed)
  await client.insert({ table: 'js', values: [[10000, 'x']], columns: ['n', 's'], format: 'JSONCompactEachRow' })
  const count = await client.query({ query: 'SELECT toUInt32(count()) AS c, toUInt32(sum(n)) AS n FROM js', format: 'JSONEachRow' })
  assert.deepStrictEqual(await count.json(), [{ c: 10001, n: 50005000 }])
  step('insert')

  let rows = 0
  const big = await client.query({ query: 'SELECT number, toString(number) AS s FROM numbers(300000)', format: 'JSONEachRow' })
  for await (const part of big.stream()) rows += part.length
  assert.strictEqual(rows, 300000)
  step('stream')

  await assert.rejects(client.query({ query: 'SELECT * FROM no_such_table' }), (e) => {
    assert.ok(e instanceof ClickHouseError, String(e))
    assert.strictEqual(e.code, '60')
    assert.strictEqual(e.type, 'UNKNOWN_TABLE')
    return true
  })
  step('error')

  await assert.rejects(async () => {
    const late = await client.query({
      query: 'SELECT number, throwIf(number = 3000000) AS t FROM numbers(4000000)', format: 'JSONEachRow', clickhouse_settings: { max_threads: 1 },
    })
    for await (const part of late.stream()) rows += part.length
  })
  step('error in stream')

  const abort = new AbortController()
  const waiting = client.query({ query: 'SELECT sum(sipHash64(number)) FROM numbers(1000000000000) -- by js', abort_signal: abort.signal })
  setTimeout(() => abort.abort(), 200)
  await assert.rejects(waiting)
  const deadline = Date.now() + 15000
  for (;;) {
    const still = await client.query({ query: "SELECT toUInt32(count()) AS c FROM system.processes WHERE query LIKE '%sip' || 'Hash64%'", format: 'JSONEachRow' })
    if ((await still.json())[0].c === 0) break
    assert.ok(Date.now() < deadline, 'the cancelled query still runs')
  }
  step('cancel')

  const one = createClient({ url: 'http://' + addr, session_id: 'js-' + compress })
  await one.command({ query: 'SET max_block_size = 777' })
  assert.strictEqual((await (await one.query({ query: "SELECT getSetting('max_block_size') AS v", format: 'TabSeparated' })).text()).trim(), '777')
  await one.close()
  step('session')
  await client.close()
}
