package spool

import (
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func metric(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var v dto.Metric
	if err := m.Write(&v); err != nil {
		t.Fatal(err)
	}
	return v.GetCounter().GetValue() + v.GetGauge().GetValue()
}

// appendSegmentHeaderCRC gives the checksum of a header that was changed.
func appendSegmentHeaderCRC(h []byte) []byte {
	return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(h[:60], castagnoli))
}
