package maintain

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// EraseOptions say what has to go: one client address, or one zone.
type EraseOptions struct {
	// IP is a client address; empty when a zone is erased.
	IP string `json:"ip,omitempty"`
	// Zone is a zone's id or name; empty when an address is erased.
	Zone string `json:"zone,omitempty"`
	// DryRun counts and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// Erased is what was found in one table.
type Erased struct {
	Table string `json:"table"`
	// What says what it is: "rows" that were deleted, "uniques" and "lists" that an address was taken out of,
	// "addresses in text" that were blanked.
	What string `json:"what"`
	// Rows is how many rows it was in before.
	Rows uint64 `json:"rows"`
	// Left is how many it is in afterwards: those stored meanwhile, 0 without new requests.
	Left uint64 `json:"left"`
}

// change is one statement that erases, and how to count what it concerns.
type change struct {
	table, what string
	where       string // finds the rows
	update      string // what is set; empty deletes the rows
}

// Erase removes an address or a zone from all tables. What it does may be repeated, and be cut off and begun again: it ends
// when counting finds nothing. The engine writes the parts concerned anew and removes the old ones, so that the bytes are
// gone and not only hidden. note tells how it goes on.
func Erase(ctx context.Context, db store.DB, o EraseOptions, note Note) ([]Erased, error) {
	changes, params, err := plan(ctx, db, &o)
	if err != nil {
		return nil, fmt.Errorf("erase: %w", err)
	}
	if err := settle(ctx, db, note); err != nil { // what an erasure that was cut off has begun
		return nil, fmt.Errorf("erase: %w", err)
	}
	var list []Erased
	for _, c := range changes {
		e := Erased{Table: c.table, What: c.what}
		count := "SELECT count() FROM " + store.Ident(c.table) + " WHERE " + c.where
		if e.Rows, err = number(ctx, db, count, params); err != nil {
			return list, fmt.Errorf("erase: count in %s: %w", c.table, err)
		}
		if e.Rows > 0 && !o.DryRun {
			note("%s: %d %s", c.table, e.Rows, c.what)
			if err := c.run(ctx, db, params, note); err != nil {
				return list, fmt.Errorf("erase: %s in %s: %w", c.what, c.table, err)
			}
			if e.Left, err = number(ctx, db, count, params); err != nil {
				return list, fmt.Errorf("erase: count in %s: %w", c.table, err)
			}
		}
		list = append(list, e)
	}
	if o.DryRun {
		return list, nil
	}
	if err := oldPartsGone(ctx, db, note); err != nil {
		return list, fmt.Errorf("erase: %w", err)
	}
	if err := listsAgain(ctx, db, changes, list, params, note); err != nil {
		return list, fmt.Errorf("erase: %w", err)
	}
	return list, nil
}

// listsAgain takes the address out of top lists that were being made of single requests while those were erased. Now nobody
// reads the parts any more that had them.
func listsAgain(ctx context.Context, db store.DB, changes []change, list []Erased, params map[string]string, note Note) error {
	for i, c := range changes {
		if c.what != whatLists {
			continue
		}
		count := "SELECT count() FROM " + store.Ident(c.table) + " WHERE " + c.where
		n, err := number(ctx, db, count, params)
		if err != nil {
			return fmt.Errorf("count in %s: %w", c.table, err)
		}
		if n > 0 {
			if err := c.run(ctx, db, params, note); err != nil {
				return fmt.Errorf("%s in %s: %w", c.what, c.table, err)
			}
			list[i].Rows += n
		}
		if list[i].Left, err = number(ctx, db, count, params); err != nil {
			return fmt.Errorf("count in %s: %w", c.table, err)
		}
	}
	return nil
}

// oldPartsTimeout bounds how long the parts that were replaced are waited for: the engine removes them in the background.
const oldPartsTimeout = 2 * time.Minute

// oldPartsGone waits until the parts that are replaced now are no longer on the disk.
func oldPartsGone(ctx context.Context, db store.DB, note Note) error {
	rows, err := texts(ctx, db, "SELECT table || '/' || name FROM "+system(db, "parts")+" AND NOT active", nil)
	if err != nil || len(rows) == 0 {
		return err
	}
	names := make([]string, len(rows))
	for i, r := range rows {
		names[i] = store.Quote(r[0])
	}
	left := "SELECT count() FROM " + system(db, "parts") + " AND NOT active AND table || '/' || name IN (" + strings.Join(names, ", ") + ")"
	for deadline := time.Now().Add(oldPartsTimeout); ; {
		n, err := number(ctx, db, left, nil)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			note("warning: %d replaced parts are still on the disk, in use by queries; the engine removes them when those have ended", n)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(mutationPoll):
		}
	}
}

// run does one change and waits until the engine has written all parts.
func (c *change) run(ctx context.Context, db store.DB, params map[string]string, note Note) error {
	where, update := fill(c.where, params), fill(c.update, params)
	if _, ok := params["ip"]; ok && c.what == whatRows && c.table == schema.HTTPRequests { // a zone goes from the rollups, too
		if err := recordErased(ctx, db, c.where, params); err != nil {
			return err
		}
	}
	sql := "ALTER TABLE " + store.Ident(c.table) + " DELETE WHERE " + where
	if c.update != "" {
		sql = "ALTER TABLE " + store.Ident(c.table) + " UPDATE " + update + " WHERE " + where
	}
	if err := run(ctx, db, sql, nil); err != nil {
		return err
	}
	return settle(ctx, db, note)
}

// fill puts values into a statement whose text the engine keeps for longer than its parameters.
func fill(sql string, params map[string]string) string {
	for name, v := range params {
		sql = strings.ReplaceAll(sql, "{"+name+":String}", store.Quote(v))
	}
	return sql
}

// mutationPoll is how often the engine is asked how far it is.
const mutationPoll = 200 * time.Millisecond

// settle waits until no change of stored rows is under way and the old parts are gone.
func settle(ctx context.Context, db store.DB, note Note) error {
	said := time.Now()
	for {
		rows, err := texts(ctx, db, "SELECT table, sum(parts_to_do), anyIf(latest_fail_reason, latest_fail_reason != '') FROM "+system(db, "mutations")+
			" AND NOT is_done GROUP BY table", nil)
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			return nil
		}
		if rows[0][2] != "" {
			return fmt.Errorf("the engine cannot change %s: %w", rows[0][0], store.ParseError(rows[0][2]))
		}
		if time.Since(said) > 2*time.Second {
			said = time.Now()
			note("%s: %s parts to write", rows[0][0], rows[0][1])
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the engine goes on with what was begun, run the command again to finish", ctx.Err())
		case <-time.After(mutationPoll):
		}
	}
}

const (
	whatRows    = "rows"
	whatUniques = "uniques"
	whatLists   = "lists"
	whatText    = "addresses in text"
)

// plan finds out what has to be done in which table, from the columns that the tables have.
func plan(ctx context.Context, db store.DB, o *EraseOptions) ([]change, map[string]string, error) {
	columns, err := texts(ctx, db, `SELECT c.table, c.name, c.type FROM system.columns AS c
INNER JOIN (SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree') AS t ON t.name = c.table
WHERE c.database = currentDatabase() AND c.default_kind != 'ALIAS' ORDER BY c.table, c.position`, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("list columns: %w", err)
	}
	if _, ok := db.(Servers); ok { // rows are counted, and orders given, by the name that means all servers
		for i := range columns {
			columns[i][0] = strings.TrimSuffix(columns[i][0], localSuffix)
		}
	}
	switch {
	case o.IP != "" && o.Zone != "":
		return nil, nil, errors.New("either an address or a zone")
	case o.IP != "":
		return planAddress(ctx, db, o.IP, columns)
	case o.Zone != "":
		return planZone(ctx, db, o.Zone, columns)
	}
	return nil, nil, errors.New("neither an address nor a zone")
}

// planZone deletes the zone's rows in every table that has zones.
func planZone(ctx context.Context, db store.DB, zone string, columns [][]string) ([]change, map[string]string, error) {
	ids, err := texts(ctx, db, "SELECT DISTINCT id FROM "+schema.Zones+" WHERE id = {zone:String} OR name = {zone:String}", map[string]string{"zone": zone})
	if err != nil {
		return nil, nil, err
	}
	id := zone
	switch {
	case len(ids) > 1:
		return nil, nil, fmt.Errorf("%d zones are named %s: give the id", len(ids), zone)
	case len(ids) == 1:
		id = ids[0][0]
	case len(zone) != 32:
		return nil, nil, fmt.Errorf("no zone is named %s; one whose name is gone can be given by its id, 32 hexadecimal digits", zone)
	}
	var list []change
	for _, c := range columns {
		if c[1] == "zone_id" || c[1] == "ZoneID" || c[0] == schema.Zones && c[1] == "id" {
			list = append(list, change{table: c[0], what: whatRows, where: store.Ident(c[1]) + " = {zone:String}"})
		}
	}
	return list, map[string]string{"zone": id}, nil
}

// planAddress deletes the requests of the address, takes it out of the sets of addresses, and blanks it where it stands in
// text that is about somebody else.
func planAddress(ctx context.Context, db store.DB, text string, columns [][]string) ([]change, map[string]string, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return nil, nil, fmt.Errorf("%q is no address", text)
	}
	addr = addr.Unmap()
	six := netip.AddrFrom16(addr.As16()).String()
	rows, err := texts(ctx, db, "SELECT hex(arrayReduce('uniqState', [toIPv6({ip:String})])) AS h", map[string]string{"ip": six})
	if err != nil {
		return nil, nil, err
	}
	hash, err := hex.DecodeString(rows[0][0])
	if err != nil || len(hash) != 6 || hash[0] != 0 || hash[1] != 1 {
		return nil, nil, fmt.Errorf("this engine writes sets of addresses in a form that is not known here: %s", rows[0][0])
	}
	params := map[string]string{"ip": six, "text": addr.String()}
	var list []change
	for _, c := range columns {
		name := store.Ident(c[1])
		switch {
		case c[2] == "IPv6" && c[1] != "EdgeServerIP":
			list = append(list, change{table: c[0], what: whatRows, where: name + " = toIPv6({ip:String})"})
		case c[2] == "AggregateFunction(uniq, IPv6)":
			list = append(list, takeOut(c[0], name, hash[2:]))
		case c[1] == schema.ColListed && (c[0] == schema.TopHour || c[0] == schema.TopDay):
			list = append(list, takeOutOfTop(c[0]))
		case c[0] == schema.HTTPRequests && c[1] == "ClientXForwardedFor":
			list = append(list, change{table: c[0], what: whatText, where: textHas(name), update: name + " = ''"})
		case c[0] == schema.Notices && c[1] == "sample":
			list = append(list, change{table: c[0], what: whatText, where: textHas(name), update: name + " = ''"})
		}
	}
	return list, params, nil
}

// takeOutOfTop removes the address from the lists of the most frequent ones. Their totals, which name nobody, stay.
func takeOutOfTop(table string) change {
	list := store.Ident(schema.ColListed)
	var set []string
	for _, c := range []string{schema.ColListedRequests, schema.ColListedBytes, schema.ColListedErrors} {
		set = append(set, store.Ident(c)+" = arrayFilter((x, v) -> v != {text:String}, "+store.Ident(c)+", "+list+")")
	}
	set = append(set, list+" = arrayFilter(v -> v != {text:String}, "+list+")")
	return change{
		table: table, what: whatLists, update: strings.Join(set, ", "),
		where: schema.ColDimension + " = 'client_ip' AND has(" + list + ", {text:String})",
	}
}

// textHas says that the address stands in a text, not as a piece of a longer one.
func textHas(column string) string {
	return "match(" + column + ", concat('(?i)(^|[^0-9a-f.:])(::ffff:)?', regexpQuoteMeta({text:String}), '($|[^0-9a-f.:]|:[0-9]+($|[^0-9a-f.:]))'))"
}

// takeOut removes an address from the states of uniq. Such a state is a byte, the number of elements as varint, and the
// elements, four bytes each: the hashes of the addresses in the set. docs/how-to/store.md says what that means.
func takeOut(table, column string, hash []byte) change {
	h := strings.ToUpper(hex.EncodeToString(hash))
	one := "CAST(unhex('0001" + h + "') AS AggregateFunction(uniq, IPv6))"
	// Where the elements begin, and the elements as hexadecimal digits. No function in here keeps s for each of them.
	begin := "multiIf(reinterpretAsUInt8(substring(s, 2, 1)) < 128, 3, reinterpretAsUInt8(substring(s, 3, 1)) < 128, 4, 5)"
	elements := "extractAll(hex(substring(s, " + begin + ")), '.{8}')"
	varint := "multiIf(n < 128, char(n), n < 16384, char(n % 128 + 128, intDiv(n, 128)), char(n % 128 + 128, intDiv(n, 128) % 128 + 128, intDiv(n, 16384)))"
	without := "arrayFilter(e -> e != '" + h + "', " + elements + ")"
	joined := "arrayMap(l -> arrayMap(n -> concat(substring(s, 1, 1), " + varint + ", unhex(arrayStringConcat(l))), [length(l)])[1], [" + without + "])[1]"
	return change{
		table: table, what: whatUniques,
		// The first condition is cheap: adding the address changes nothing. The second is exact.
		where: "finalizeAggregation(" + column + ") = finalizeAggregation(arrayReduce('uniqMergeState', [" + column + ", " + one + "]))" +
			" AND arrayMap(s -> has(" + elements + ", '" + h + "'), [CAST(" + column + " AS String)])[1]",
		update: column + " = arrayMap(s -> CAST(" + joined + " AS AggregateFunction(uniq, IPv6)), [CAST(" + column + " AS String)])[1]",
	}
}

// recordErased notes how many requests of which zone and day will be gone, so that a check knows why the raw table has fewer
// than the rollups. It says nothing of the address.
func recordErased(ctx context.Context, db store.DB, where string, params map[string]string) error {
	sql := "INSERT INTO " + schema.Erasures + " (day, zone_id, requests) SELECT toDate(EdgeStartTimestamp) AS day, ZoneID, count() FROM " +
		schema.HTTPRequests + " WHERE " + fill(where, params) + " GROUP BY day, ZoneID"
	if err := run(ctx, db, sql, nil); err != nil {
		return fmt.Errorf("record what is erased: %w", err)
	}
	return nil
}
