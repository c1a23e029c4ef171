package schema

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/spate-io/spate/event/notice"
	"github.com/spate-io/spate/store"
)

// NoticeRow is one row of [Notices].
type NoticeRow struct {
	Edge string
	notice.Notice
}

// RecordNotices adds rows to what edges had to tell. A call that is repeated with the same token counts once.
func RecordNotices(ctx context.Context, db store.DB, token string, rows []NoticeRow) error {
	if len(rows) == 0 {
		return nil
	}
	edge, kind := newDict("edge"), newDict("kind")
	at, line, count := word{header: header{"time", "DateTime64(3, 'UTC')"}}, word{header: header{"line", "UInt64"}}, word{header: header{"count", "UInt64"}}
	source, reason, sample := text{header: header{"source", "String"}}, text{header: header{"reason", "String"}}, text{header: header{"sample", "String"}}
	for _, r := range rows {
		edge.string(r.Edge)
		at.i64(min(max(r.Time.UnixMilli(), 0), lastTime/int64(time.Millisecond/time.Microsecond)))
		kind.string(r.Kind)
		source.bytes([]byte(r.Source))
		line.u64(r.Line)
		count.u64(r.Count)
		reason.bytes([]byte(r.Reason))
		sample.bytes([]byte(r.Sample))
	}
	columns := []blockColumn{&edge, &at, &kind, &source, &line, &count, &reason, &sample}
	var buf proto.Buffer
	buf.PutInt(len(columns))
	buf.PutInt(len(rows))
	for _, c := range columns {
		c.encode(&buf)
	}
	err := db.Insert(ctx, store.Insert{
		Table: Notices, Columns: []string{"edge", "time", "kind", "source", "line", "count", "reason", "sample"}, Block: buf.Buf, Token: token,
	})
	if err != nil {
		return fmt.Errorf("record notices: %w", err)
	}
	return nil
}
