package forward

import "context"

// Origin says where a chunk came from: a stream (a worker's run, a log file) and the position in it that is reached
// with the chunk. Positions in one stream only grow.
type Origin struct {
	Stream   [16]byte
	Position uint64
}

// Chunk is a run of events of one stream, handed over as a whole: its events and its position become durable together.
type Chunk struct {
	// Events are concatenated standard-framed messages. They are read during Put only; the caller may then reuse them.
	Events []byte
	// Count is the number of messages in Events.
	Count uint32
	// Dropped is the number of events that the source lost since its chunk before.
	Dropped uint32
	// Origin is the stream and the position after this chunk.
	Origin Origin
}

// Sink is what inputs need of a Forwarder. Its methods may be called from any goroutine; the chunks of one stream must be
// put by one goroutine at a time, in the order of their positions.
type Sink interface {
	// Put takes a chunk. It blocks under back-pressure, and until the sink is open; its error is ctx's, or says that the
	// sink is stopping. A chunk whose position is not above the known position of its stream is counted and dropped.
	Put(ctx context.Context, c Chunk) error
	// Position gives the highest position accepted for a stream, which may not yet be durable.
	Position(stream [16]byte) (uint64, bool)
	// OnDurable calls fn with a position of the stream when all up to it is on disk: soon after the registration when
	// something is durable already, and then each time more is. fn runs on a goroutine of the sink, must not block and
	// must not call the sink. cancel ends the calls; one that is under way may still finish.
	OnDurable(stream [16]byte, fn func(position uint64)) (cancel func())
}
