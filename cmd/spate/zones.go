package main

import (
	"context"
	"fmt"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/internal/zone"
	"github.com/spate-io/spate/store"
	"github.com/spate-io/spate/store/schema"
)

// zoneTable keeps the zones of a registry in the store's table of zones.
type zoneTable struct{ db store.DB }

// load reads all zones; the newest row of an id counts.
func (t zoneTable) load(ctx context.Context) ([]zone.Zone, error) {
	var (
		id, name, plan proto.ColStr
		hosts          = new(proto.ColStr).Array()
		created        proto.ColDateTime64
		zones          []zone.Zone
	)
	created.WithPrecision(proto.PrecisionMilli)
	_, err := t.db.Select(ctx, store.Query{SQL: "SELECT id, name, hosts, plan, created FROM " + schema.Zones + " FINAL"},
		proto.Results{
			{Name: "id", Data: &id}, {Name: "name", Data: &name}, {Name: "hosts", Data: hosts},
			{Name: "plan", Data: &plan}, {Name: "created", Data: &created},
		},
		func(_ context.Context, rows int) error {
			for i := range rows {
				zones = append(zones, zone.Zone{ID: id.Row(i), Name: name.Row(i), Hosts: hosts.Row(i), Plan: plan.Row(i), Created: created.Row(i).UTC()})
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read zones: %w", err)
	}
	return zones, nil
}

// save writes zones, replacing those of the same id.
func (t zoneTable) save(ctx context.Context, zones []zone.Zone) error {
	var (
		id, name, plan proto.ColStr
		hosts          = new(proto.ColStr).Array()
		created        = new(proto.ColDateTime64).WithPrecision(proto.PrecisionMilli)
	)
	for i := range zones {
		z := &zones[i]
		id.Append(z.ID)
		name.Append(z.Name)
		hosts.Append(z.Hosts)
		plan.Append(z.Plan)
		created.Append(z.Created)
	}
	input := proto.Input{
		{Name: "id", Data: &id}, {Name: "name", Data: &name}, {Name: "hosts", Data: hosts},
		{Name: "plan", Data: &plan}, {Name: "created", Data: created},
	}
	var buf proto.Buffer
	block := proto.Block{Rows: len(zones), Columns: len(input)}
	if err := block.EncodeRawBlock(&buf, 0, input); err != nil {
		return fmt.Errorf("encode zones: %w", err)
	}
	columns := make([]string, len(input))
	for i, c := range input {
		columns[i] = c.Name
	}
	if err := t.db.Insert(ctx, store.Insert{Table: schema.Zones, Columns: columns, Block: buf.Buf}); err != nil {
		return fmt.Errorf("write zones: %w", err)
	}
	return nil
}
