-- The bounded buffer of one worker: a ring of bytes in which events are collected into frames, and frames are kept until the
-- forwarder has them on disk. docs/format/producer.md has the layout of a frame.
--
-- The ring always holds, from tail to head: frames that were sent and not acknowledged, frames not yet sent, and at most one
-- open frame that still grows. No frame is split by the end of the ring: `wrap` is where the last frame before the end
-- stops while head has already gone round. Single-threaded, like everything in a worker.

local ffi = require "ffi"
local C = ffi.C

local HEADER = 24 -- bytes of a frame's header, as sent
local PREFIX = 8 -- before it, not sent: the size of the payload in the ring
local FRONT = PREFIX + HEADER
local MAGIC = 0x52465053 -- "SPFR"
local MAX_U32 = 4294967295

local Ring = {}
Ring.__index = Ring

-- new makes a ring of size bytes whose frames close when their payload reaches frame bytes.
local function new(size, frame)
  size = size - size % 8
  local mem = C.malloc(size)
  if mem == nil then
    return nil, "no memory for a buffer of " .. size .. " bytes"
  end
  return setmetatable({
    size = size,
    frame = frame,
    mem = mem,
    b8 = ffi.cast("uint8_t *", mem),
    b16 = ffi.cast("uint16_t *", mem),
    b32 = ffi.cast("uint32_t *", mem),
    b64 = ffi.cast("int64_t *", mem),
    f32 = ffi.cast("float *", mem),
    head = 0, -- where the next byte goes
    tail = 0, -- the oldest frame kept
    wrap = false, -- end of the last frame before the end of the ring, while head is below tail
    open = false, -- where the open frame starts
    events = 0, -- events in the open frame
    sealed = 0, -- position of the newest closed frame
    acked = 0, -- position of the newest acknowledged frame
    next = 0, -- where the next frame to send starts
    next_position = 1, -- and its position
    dropped = 0, -- events lost since the newest closed frame
    total_events = 0,
    total_dropped = 0,
  }, Ring)
end

-- room says whether n bytes fit at the head, going round if needed. No frame may be open.
local function room(self, n)
  if self.wrap then
    return self.head + n < self.tail
  end
  if self.head + n <= self.size then
    return true
  end
  if n >= self.tail then
    return false
  end
  if self.next_position > self.sealed then
    self.next = 0
  end
  self.wrap, self.head = self.head, 0
  return true
end

-- reserve gives the offset (a multiple of 8) at which an event of at most n bytes may be written, or nil when the ring is
-- full. commit(used) makes it part of the open frame; an event that was reserved only is not there.
function Ring:reserve(n)
  if not self.open then
    if self.acked == self.sealed then -- empty: start over, so that memory that was never needed is never touched
      self.head, self.tail, self.next, self.wrap = 0, 0, 0, false
    end
    if not room(self, n + FRONT) then
      return nil
    end
    self.open = self.head
    self.head = self.head + FRONT
    return self.head
  end
  if self.wrap then
    if self.head + n < self.tail then
      return self.head
    end
    return nil
  end
  if self.head + n <= self.size then
    return self.head
  end
  self:seal()
  return self:reserve(n)
end

-- commit adds the event of n bytes (a multiple of 8) at the reserved offset, and says whether the frame is large enough
-- to be sent.
function Ring:commit(n)
  local head = self.head + n
  self.head = head
  self.events = self.events + 1
  return head - self.open >= self.frame
end

-- drop counts one lost event.
function Ring:drop()
  self.dropped = self.dropped + 1
  self.total_dropped = self.total_dropped + 1
end

-- seal closes the open frame. Losses are told by a frame without events when there is no other. It says whether a frame
-- was closed.
function Ring:seal()
  local at = self.open
  if not at then
    if self.dropped == 0 then
      return false
    end
    at = self:reserve(0)
    if not at then
      return false
    end
    at = self.open
  end
  if self.events == 0 and self.dropped == 0 then
    self.head, self.open = at, false
    return false
  end
  local dropped = math.min(self.dropped, MAX_U32)
  local position = self.sealed + 1
  local length = self.head - at - FRONT
  local w = at / 4
  self.b64[at / 8] = length
  self.b32[w + 2] = MAGIC
  self.b32[w + 3] = self.events
  self.b64[at / 8 + 2] = position
  self.b32[w + 6] = dropped
  self.b32[w + 7] = length
  self.total_events = self.total_events + self.events
  self.dropped = self.dropped - dropped
  self.sealed, self.events, self.open = position, 0, false
  return true
end

-- after gives where the frame behind the one at offset starts.
local function after(self, at)
  local stop = at + FRONT + self.b32[at / 4]
  if self.wrap and stop == self.wrap then
    return 0
  end
  return stop
end

-- pending gives a pointer to and the size of the next frame to send, or nil.
function Ring:pending()
  if self.next_position > self.sealed then
    return nil
  end
  return self.b8 + self.next + PREFIX, HEADER + self.b32[self.next / 4 + 7]
end

-- sent moves on to the frame behind.
function Ring:sent()
  self.next = after(self, self.next)
  self.next_position = self.next_position + 1
end

-- rewind makes the frame behind position the next to send; frames that are not kept any more are passed over.
function Ring:rewind(position)
  self.next, self.next_position = self.tail, self.acked + 1
  while self.next_position <= position and self.next_position <= self.sealed do
    self:sent()
  end
end

-- acknowledge lets go of all frames up to position. It refuses a position that was never sent.
function Ring:acknowledge(position)
  if position >= self.next_position then
    return nil, "acknowledged frame " .. position .. " before it was sent"
  end
  while self.acked < position do
    self.acked = self.acked + 1
    self.tail = after(self, self.tail)
    if self.tail == 0 then
      self.wrap = false
    end
  end
  return true
end

-- refuse empties the frame at position, whose bytes the forwarder does not accept: its events count as lost. The frame
-- itself stays, so that positions have no gap. It gives the number of events lost.
function Ring:refuse(position)
  if position <= self.acked or position > self.sealed then
    return 0
  end
  local at, p = self.tail, self.acked + 1
  while p < position do
    at, p = after(self, at), p + 1
  end
  local w = at / 4
  local lost = self.b32[w + 3]
  self.b32[w + 3] = 0
  self.b32[w + 6] = math.min(self.b32[w + 6] + lost, MAX_U32)
  self.b32[w + 7] = 0
  self.total_dropped = self.total_dropped + lost
  return lost
end

-- unacknowledged is the number of events in the ring.
function Ring:unacknowledged()
  local n, at = self.events, self.tail
  for _ = self.acked + 1, self.sealed do
    n = n + self.b32[at / 4 + 3]
    at = after(self, at)
  end
  return n
end

-- kept is the number of bytes in use.
function Ring:kept()
  if self.wrap then
    return self.wrap - self.tail + self.head
  end
  return self.head - self.tail
end

return { new = new }
