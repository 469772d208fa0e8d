// A stand-in for libamdhip64: no GPU, every call is recorded. `stub_*` functions are for tests.
// It has what our runtime and the reference system's call; stub_hip.map gives it the versions that
// the latter asks for.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int hipError_t;
enum { kInvalidValue = 1, kNoDevice = 100, kInvalidDevice = 101, kNotFound = 500, kCapture = 900 };

struct record {
  uint64_t function, stream;
  uint32_t grid[3], block[3], cluster[3], lds;
  int32_t device, captured;
  uint64_t size;
  unsigned char kernarg[1024];
};

static struct record last;
static uint64_t launches, loads, unloads;
static int devices = 1, fail_next;
static char arch[8][256] = {"gfx942:sramecc+:xnack-"};
static __thread int current;
static __thread int capture_mode;
static int capturing, peers[8][8];
static char last_call[64];

// Nanoseconds that a launch takes; STUB_LAUNCH_NS for programs that do not call this.
static uint64_t launch_ns;
void stub_launch_time(uint64_t ns) { launch_ns = ns; }
__attribute__((constructor)) static void settings(void) {
  const char *text = getenv("STUB_LAUNCH_NS");
  if (text) launch_ns = strtoull(text, 0, 10);
}
static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static void spend(void) {
  if (!launch_ns) return;
  uint64_t end = now() + launch_ns;
  while (now() < end) {
  }
}

uint64_t stub_launches(void) { return launches; }
uint64_t stub_loads(void) { return loads; }
uint64_t stub_unloads(void) { return unloads; }
const struct record *stub_last(void) { return &last; }
void stub_devices(int count) { devices = count; }
void stub_arch(int device, const char *name) { strncpy(arch[device], name, 255); }
void stub_fail(int status) { fail_next = status; }
int stub_peer(int a, int b) { return peers[a][b]; }
const char *stub_call(void) { return last_call; }

static hipError_t done(const char *name) {
  int status = fail_next;
  fail_next = 0;
  strncpy(last_call, name, sizeof last_call - 1);
  return status;
}
#define DONE return done(__func__)

const char *hipGetErrorName(int e) {
  return e == kNoDevice ? "hipErrorNoDevice" : e == 719 ? "hipErrorLaunchFailure" : "hipErrorUnknown";
}
const char *hipGetErrorString(int e) { return e == 719 ? "unspecified launch failure" : "some error"; }
hipError_t hipGetDeviceCount(int *n) { *n = devices; return devices ? done(__func__) : kNoDevice; }
hipError_t hipGetDevice(int *d) { *d = current; return 0; }
hipError_t hipSetDevice(int d) {
  if (d < 0 || d >= devices) return kInvalidDevice;
  current = d;
  return 0;
}
hipError_t hipGetDevicePropertiesR0600(void *p, int d) {
  if (d < 0 || d >= devices) return kInvalidDevice;
  memset(p, 0, 1472);
  strcpy((char *)p + 1160, arch[d]);
  DONE;
}
hipError_t hipDeviceSynchronize(void) { DONE; }
hipError_t hipModuleLoadData(void **m, const void *image) {
  if (memcmp(image, "\177ELF", 4)) return 200;
  if (capturing && capture_mode != 2) return kCapture;
  loads++;
  *m = (void *)(uintptr_t)(0x3000 + current);
  DONE;
}
hipError_t hipModuleUnload(void *m) { unloads++; DONE; }
hipError_t hipModuleGetFunction(void **f, void *m, const char *name) {
  uintptr_t sum = 0x20000 + ((uintptr_t)m & 7);
  for (; *name; name++) sum += 8 * (unsigned char)*name;
  *f = (void *)sum;
  DONE;
}
hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block, size_t lds) {
  *n = 2048 / block - (int)(lds >> 16);
  DONE;
}
hipError_t hipThreadExchangeStreamCaptureMode(int *mode) {
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

static void note(void *f, const unsigned *dims, unsigned lds, void *stream, void **extra) {
  launches++;
  spend();
  memset(&last, 0, sizeof last);
  last.function = (uint64_t)f;
  memcpy(last.grid, dims, 12);
  memcpy(last.block, dims + 3, 12);
  last.lds = lds;
  last.stream = (uint64_t)stream;
  last.device = current;
  last.captured = capturing;
  if (extra && extra[0] == (void *)1 && extra[2] == (void *)2 && extra[4] == (void *)3) {
    last.size = *(size_t *)extra[3];
    memcpy(last.kernarg, extra[1], last.size < 1024 ? last.size : 1024);
  }
}
hipError_t hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned lds, void *stream, void **params, void **extra) {
  unsigned dims[6] = {gx, gy, gz, bx, by, bz};
  note(f, dims, lds, stream, extra);
  DONE;
}
struct attribute { unsigned id; char pad[4]; unsigned value[16]; };
struct config { unsigned dims[6], lds; void *stream; struct attribute *attributes; unsigned count; };
hipError_t hipDrvLaunchKernelEx(const struct config *c, void *f, void **params, void **extra) {
  note(f, c->dims, c->lds, c->stream, extra);
  if (c->count == 1 && c->attributes[0].id == 4) memcpy(last.cluster, c->attributes[0].value, 12);
  DONE;
}

hipError_t hipMalloc(void **p, size_t n) { *p = malloc(n); DONE; }
hipError_t hipFree(void *p) { free(p); DONE; }
hipError_t hipMemcpy(void *d, const void *s, size_t n, int kind) { memcpy(d, s, n); DONE; }
hipError_t hipMemcpyAsync(void *d, const void *s, size_t n, int kind, void *st) { memcpy(d, s, n); DONE; }
hipError_t hipMemset(void *d, int v, size_t n) { memset(d, v, n); DONE; }
hipError_t hipMemsetD16Async(void *d, unsigned short v, size_t n, void *s) { DONE; }
hipError_t hipMemsetD32Async(void *d, int v, size_t n, void *s) { DONE; }
hipError_t hipHostGetDevicePointer(void **d, void *h, unsigned f) { *d = h; DONE; }
hipError_t hipHostRegister(void *p, size_t n, unsigned f) { DONE; }
hipError_t hipHostUnregister(void *p) { DONE; }
hipError_t hipGetLastError(void) { return 0; }
hipError_t hipStreamCreate(void **s) { *s = (void *)0x4100; DONE; }
hipError_t hipStreamCreateWithFlags(void **s, unsigned f) { *s = (void *)(uintptr_t)(0x4000 + f); DONE; }
hipError_t hipStreamDestroy(void *s) { DONE; }
hipError_t hipStreamSynchronize(void *s) { DONE; }
hipError_t hipStreamWaitEvent(void *s, void *e, unsigned f) { DONE; }
hipError_t hipStreamBeginCapture(void *s, int mode) { capturing = 1; DONE; }
hipError_t hipStreamEndCapture(void *s, void **g) { capturing = 0; *g = (void *)0x5000; DONE; }
hipError_t hipStreamIsCapturing(void *s, int *status) { *status = capturing; DONE; }
hipError_t hipGraphInstantiate(void **x, void *g, void *n, char *log, size_t size) { *x = (void *)0x6000; DONE; }
hipError_t hipGraphLaunch(void *x, void *s) { launches++; DONE; }
hipError_t hipGraphDestroy(void *g) { DONE; }
hipError_t hipGraphExecDestroy(void *x) { DONE; }
hipError_t hipEventCreateWithFlags(void **e, unsigned f) { *e = (void *)0x7000; DONE; }
hipError_t hipEventDestroy(void *e) { DONE; }
hipError_t hipEventRecord(void *e, void *s) { DONE; }
hipError_t hipEventSynchronize(void *e) { DONE; }
hipError_t hipEventElapsedTime(float *ms, void *a, void *b) { *ms = 1.5f; DONE; }
hipError_t hipDeviceCanAccessPeer(int *can, int a, int b) { *can = a != b; DONE; }
hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (peers[current][peer]) return 704;
  peers[current][peer] = 1;
  DONE;
}
hipError_t hipDeviceDisablePeerAccess(int peer) {
  if (!peers[current][peer]) return 705;
  peers[current][peer] = 0;
  DONE;
}
struct handle { char bytes[64]; };
hipError_t hipIpcGetMemHandle(struct handle *h, void *p) { memset(h, 0, 64); memcpy(h, &p, 8); DONE; }
hipError_t hipIpcOpenMemHandle(void **p, struct handle h, unsigned flags) {
  if (flags != 1) return kInvalidValue;
  memcpy(p, &h, 8);
  DONE;
}
hipError_t hipIpcCloseMemHandle(void *p) { DONE; }

// A tensor library with DLPack's exchange functions: all its tensors are this one.
struct tensor {
  void *data;
  int32_t device_type, device_id, ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
static float elements[256] __attribute__((aligned(64)));
static int64_t extent = 100, step = 1;
void *stub_elements(void) { return elements; }
void stub_tensor(int64_t count, int64_t stride) { extent = count, step = stride; }
static int read_tensor(void *object, struct tensor *out) {
  *out = (struct tensor){elements, 1, 0, 1, 2, 32, 1, &extent, &step, 0};
  return 0;
}
struct exchange {
  uint32_t major, minor;
  void *older, *allocate, *from_object, *to_object;
  int (*read)(void *, struct tensor *);
  void *stream;
};
struct exchange stub_exchange = {1, 3, 0, 0, 0, 0, read_tensor, 0};
