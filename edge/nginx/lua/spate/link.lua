-- The connection from one worker to the forwarder: says hello, sends frames, takes acknowledgements, and connects again
-- with growing pauses when the forwarder is away. docs/format/producer.md has the bytes.
--
-- All of it is non-blocking and done in small steps, from the timer and, when a frame is full, from the log phase: pump()
-- does what can be done at once and returns.

local ffi = require "ffi"
local sys = require "spate.sys"

local VERSION, HTTP_REQUESTS = 1, 1
local HELLO, ACK, REFUSED = 1, 2, 3
local ANSWER = 16 -- bytes of an answer without its reason
local HELLO_TIMEOUT = 5 -- seconds
local FIRST_PAUSE, LONGEST_PAUSE, REFUSED_PAUSE = 0.1, 2, 30 -- seconds

local Link = {}
Link.__index = Link

local function u16(n)
  return string.char(n % 256, math.floor(n / 256) % 256)
end

local function u32(n)
  return u16(n % 65536) .. u16(math.floor(n / 65536))
end

-- new makes a link that empties ring. options: socket, stream, pid, worker, edge; note(message) tells the operator.
local function new(options, ring, note)
  return setmetatable({
    ring = ring,
    path = options.socket,
    note = note,
    hello = "SPPR" .. string.char(VERSION, HTTP_REQUESTS) .. u16(#options.edge) .. u32(options.pid) .. u32(options.worker)
      .. options.stream .. options.edge,
    fd = false,
    open = false, -- the forwarder has answered the hello
    sent = 0, -- bytes of the frame being sent that are gone
    inbox = ffi.new("uint8_t[4096]"),
    filled = 0,
    retry_at = 0,
    pause = FIRST_PAUSE,
    connects = 0,
    refused = 0,
  }, Link)
end

-- shut closes the connection; the next attempt comes after a pause.
function Link:shut(reason, pause)
  if self.fd then
    sys.close(self.fd)
  end
  self.fd, self.open, self.sent, self.filled = false, false, 0, 0
  self.pause = math.min(self.pause * 2, LONGEST_PAUSE)
  self.retry_at = sys.monotonic() + (pause or self.pause * (0.5 + math.random() / 2))
  self.note(reason)
end

local function connect(self)
  local now = sys.monotonic()
  if now < self.retry_at then
    return false
  end
  local fd, err = sys.connect(self.path)
  if not fd then
    self:shut(err)
    return false
  end
  self.fd, self.since = fd, now
  -- A fresh socket takes a few dozen bytes at once.
  if sys.send(fd, self.hello, #self.hello) ~= #self.hello then
    self:shut("the socket did not take the hello")
    return false
  end
  return true
end

-- answer handles one message of the forwarder; it gives nil and the reason when the connection cannot go on.
local function answer(self, kind, position, reason)
  local ring = self.ring
  if kind == REFUSED then
    self.refused = self.refused + 1
    local lost = ring:refuse(position)
    return nil, "the forwarder refused frame " .. position .. " (" .. lost .. " events lost): " .. reason,
      position == 0 and REFUSED_PAUSE or nil
  end
  if kind == HELLO then
    if self.open then
      return nil, "the forwarder answered hello twice"
    end
    self.open, self.pause = true, FIRST_PAUSE
    self.connects = self.connects + 1
    ring:rewind(position)
    return true
  end
  if kind == ACK and self.open then
    return ring:acknowledge(position)
  end
  return nil, "the forwarder sent a message of unknown kind " .. kind
end

-- drain reads all answers that are there.
local function drain(self)
  local inbox = self.inbox
  while true do
    local got, err = sys.recv(self.fd, inbox + self.filled, 4096 - self.filled)
    if not got then
      return nil, err
    end
    if got == 0 then
      return true
    end
    local stop, at = self.filled + got, 0
    while stop - at >= ANSWER do
      local reason = inbox[at + 2] + inbox[at + 3] * 256
      if reason > 1024 then
        return nil, "the forwarder sent a reason of " .. reason .. " bytes"
      end
      if stop - at < ANSWER + reason then
        break
      end
      local position = tonumber(ffi.cast("uint64_t *", inbox + at + 8)[0])
      local ok, why, pause = answer(self, inbox[at], position, ffi.string(inbox + at + ANSWER, reason))
      if not ok then
        return nil, why, pause
      end
      at = at + ANSWER + reason
    end
    if at > 0 and stop > at then
      ffi.copy(inbox, ffi.string(inbox + at, stop - at), stop - at)
    end
    self.filled = stop - at
  end
end

-- fill sends frames until there is none or the socket takes no more; it gives true in the first case, false in the second.
local function fill(self)
  local ring = self.ring
  while true do
    local from, n = ring:pending()
    if not from then
      return true
    end
    local got, err = sys.send(self.fd, from + self.sent, n - self.sent)
    if not got then
      return nil, err
    end
    self.sent = self.sent + got
    if self.sent < n then
      return false
    end
    self.sent = 0
    ring:sent()
  end
end

-- pump does what can be done now. It gives "idle" when nothing is left to send, "busy" when the socket took not all of
-- it, and "away" when there is no connection.
function Link:pump()
  if not self.fd and not connect(self) then
    return "away"
  end
  local ok, why, pause = drain(self)
  if not ok then
    self:shut(why, pause)
    return "away"
  end
  if not self.open then
    if sys.monotonic() - self.since > HELLO_TIMEOUT then
      self:shut("no answer to hello")
    end
    return "away"
  end
  local all, err = fill(self)
  if all == nil then
    -- A refusal may be waiting to be read; it says more than the broken pipe.
    local _, more, longer = drain(self)
    self:shut(more or err, longer)
    return "away"
  end
  return all and "idle" or "busy"
end

return { new = new }
