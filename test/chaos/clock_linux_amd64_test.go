package chaos

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// setClock makes one process see a clock that is off by that much, and nobody else: it replaces the functions of the page
// that the kernel gives a process for reading the time (the vDSO), which both Go and the store's library use, by ones that
// add to what the kernel says. Monotonic time goes on as before, as when an administrator or NTP sets the clock. Zero puts
// it right again.
func setClock(pid int, by time.Duration) error {
	lo, hi, err := vdsoRange(pid)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = mem.Close() }()
	image := make([]byte, hi-lo)
	if _, err := mem.ReadAt(image, lo); err != nil {
		return fmt.Errorf("read the vDSO: %w", err)
	}
	entries, end, err := vdsoEntries(image)
	if err != nil {
		return err
	}
	// Behind the image: the offset in seconds, then what replaces each function.
	offset := (end + 63) &^ 63
	free := offset + 8
	patch := binary.LittleEndian.AppendUint64(nil, uint64(int64(by/time.Second)))
	jumps := map[int64][]byte{}
	for _, r := range replacements {
		entry, ok := entries[r.name]
		if !ok {
			return fmt.Errorf("the vDSO has no %s", r.name)
		}
		at := free + len(patch) - 8
		jumps[entry] = append([]byte{0xe9}, le32(int64(at)-entry-5)...)
		code := append(append(bytes.Clone(r.before), le32(int64(offset)-int64(at+len(r.before)+4))...), r.after...)
		patch = append(patch, code...)
	}
	if offset+len(patch) > len(image) {
		return errors.New("no room in the vDSO")
	}
	if _, err := mem.WriteAt(patch, lo+int64(offset)); err != nil {
		return fmt.Errorf("write the vDSO: %w", err)
	}
	for entry, jump := range jumps {
		if bytes.Equal(image[entry:entry+5], jump) {
			continue // an earlier step was here
		}
		if _, err := mem.WriteAt(jump, lo+entry); err != nil {
			return fmt.Errorf("write the vDSO: %w", err)
		}
	}
	return nil
}

// replacements are machine code: a system call, and the addition of the offset to its result. Between before and after is
// the distance to the offset.
var replacements = []struct {
	name          string
	before, after []byte
}{
	{
		"__vdso_clock_gettime", // (edi clock, rsi timespec)
		[]byte{
			0xb8, 228, 0, 0, 0, 0x0f, 0x05, // mov eax, 228; syscall
			0x85, 0xff, 0x74, 0x05, // CLOCK_REALTIME: add
			0x83, 0xff, 0x05, 0x75, 0x0a, // not CLOCK_REALTIME_COARSE: return
			0x48, 0x8b, 0x15, // mov rdx, [offset]
		},
		[]byte{0x48, 0x01, 0x16, 0xc3}, // add [rsi], rdx; ret
	},
	{
		"__vdso_gettimeofday", // (rdi timeval, rsi zone)
		[]byte{
			0xb8, 96, 0, 0, 0, 0x0f, 0x05, // mov eax, 96; syscall
			0x48, 0x85, 0xff, 0x74, 0x0a, // no timeval: return
			0x48, 0x8b, 0x15, // mov rdx, [offset]
		},
		[]byte{0x48, 0x01, 0x17, 0xc3}, // add [rdi], rdx; ret
	},
	{
		"__vdso_time", // (rdi time_t)
		[]byte{0xb8, 201, 0, 0, 0, 0x0f, 0x05, 0x48, 0x03, 0x05},     // mov eax, 201; syscall; add rax, [offset]
		[]byte{0x48, 0x85, 0xff, 0x74, 0x03, 0x48, 0x89, 0x07, 0xc3}, // mov [rdi], rax unless rdi is 0; ret
	},
}

func le32(n int64) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(int32(n))) }

func vdsoRange(pid int) (lo, hi int64, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			_, err := fmt.Sscanf(line, "%x-%x", &lo, &hi)
			return lo, hi, err
		}
	}
	return 0, 0, errors.New("no vDSO")
}

// vdsoEntries gives where each function of the image begins, and where the image ends.
func vdsoEntries(image []byte) (map[string]int64, int, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, 0, fmt.Errorf("parse the vDSO: %w", err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, 0, fmt.Errorf("parse the vDSO: %w", err)
	}
	entries := map[string]int64{}
	for _, s := range symbols {
		entries[s.Name] = int64(s.Value)
	}
	// The section headers are last.
	end := int(binary.LittleEndian.Uint64(image[0x28:])) + int(binary.LittleEndian.Uint16(image[0x3a:]))*int(binary.LittleEndian.Uint16(image[0x3c:]))
	return entries, end, nil
}
