package kafkatest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spate-io/spate/internal/testdata"
)

// Version is the release of Apache Kafka that tests run.
const Version = "4.3.1"

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>io.spate</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + Version + `</version></dependency>
<dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.25.4</version></dependency>
</dependencies></project>`

// library returns the folder with Kafka's jars, and fetches them when they are not there.
func library(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		absent(t, "no java")
	}
	dir := filepath.Join(testdata.Root(t), ".cache", "kafka", Version)
	lib := filepath.Join(dir, "lib")
	if ready(dir) {
		return lib
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		absent(t, "no mvn to fetch Kafka with")
	}
	if err := fetch(dir, lib); err != nil {
		absent(t, err.Error())
	}
	return lib
}

func ready(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "complete"))
	return err == nil
}

// fetch runs Maven; of several processes one does it.
func fetch(dir, lib string) error {
	if err := os.MkdirAll(lib, 0o750); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if ready(dir) {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("mvn", "-B", "-q", "-ntp", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+lib) //nolint:gosec // our own arguments
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("fetch Kafka %s: %w: %s", Version, err, out)
	}
	return os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600)
}

func absent(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("SPATE_LIVE") == "1" {
		t.Fatalf("Apache Kafka is required and cannot run: %s", why)
	}
	t.Skipf("Apache Kafka cannot run: %s", why)
}
