package spool

import (
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
