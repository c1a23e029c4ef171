package kafkatest

import "testing"

func TestStart_AnswersOnItsAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a JVM")
	}
	c := Start(t, 1)
	if c.Addr() == "" {
		t.Error("no address")
	}
}
