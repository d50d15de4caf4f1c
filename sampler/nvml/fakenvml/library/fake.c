// A fake NVIDIA management library: the ABI of libnvidia-ml.so.1 for a machine
// described in a text file, so that programs can be tested without a GPU, with
// faults that a real one won't show on demand.
//
// Two files are next to the library, both made by the Go package fakenvml:
//
//   state     the machine, one fact per line; replaced as a whole, never edited:
//               machine <key> <value>
//               gpu <n> <key> <value>        sorted by key within a GPU
//               rule <n|*> <function|*> hang | slow <ms> | return <code>
//   control   mapped into memory: the state's generation, which changes when the
//             state is replaced, and the counters that the tests read
//
// A missing key of a GPU is not supported; a value "!4" makes the call return
// code 4. The keys of a MIG instance begin with "mig<n>.".

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include "nvml.h"

enum { MAX_GPUS = 16, MAX_MIG = 8, MAX_FUNCTIONS = 160, ANY = -1 };

// ---- The control file, shared with the tests. Go uses the same layout. ----

struct row {
  char name[64];                       // the function
  _Atomic unsigned long long calls[MAX_GPUS + 1]; // by GPU; the last is for calls without a GPU
};

struct control {
  _Atomic unsigned long long generation; // the tests add one when they replace the state
  _Atomic unsigned long long held;       // calls that hang now
  _Atomic unsigned long long initialized; // successful inits less shutdowns
  _Atomic unsigned long long event_sets;  // created and not freed
  _Atomic unsigned long long samples;     // GPM samples created and not freed
  struct row rows[MAX_FUNCTIONS];
};

// ---- The state file ----

struct fact { int gpu; const char *key, *value; };
enum action { HANG, SLOW, RETURN };
struct rule { int gpu; const char *function; enum action action; int number; };

struct state {
  unsigned long long generation;
  char *text;                 // the strings below point into it
  int nfacts, nrules, gpus;
  struct fact *facts;
  struct rule *rules;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct control *control;
static _Atomic(struct state *) current; // old ones are never freed: a call may still read them
static char folder[4096];
static _Atomic int references;          // inits not yet shut down
static _Atomic int attached_epoch;      // the driver's load count when we initialized

static char *slurp(const char *name) {
  char path[5000];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "r");
  if (!f) return NULL;
  struct stat st;
  char *text = NULL;
  if (fstat(fileno(f), &st) == 0 && (text = calloc(1, st.st_size + 1)))
    text[fread(text, 1, st.st_size, f)] = 0;
  fclose(f);
  return text;
}

static int gpu_number(const char *s) { return strcmp(s, "*") == 0 ? ANY : atoi(s); }

static void parse_line(struct state *s, char *line) {
  char *save, *kind = strtok_r(line, " ", &save);
  if (!kind) return;
  if (strcmp(kind, "machine") == 0) {
    char *key = strtok_r(NULL, " ", &save);
    s->facts[s->nfacts++] = (struct fact){ANY, key, save};
    if (strcmp(key, "gpus") == 0) s->gpus = atoi(save);
  } else if (strcmp(kind, "gpu") == 0) {
    int gpu = atoi(strtok_r(NULL, " ", &save));
    char *key = strtok_r(NULL, " ", &save);
    s->facts[s->nfacts++] = (struct fact){gpu, key, save};
  } else if (strcmp(kind, "rule") == 0) {
    struct rule r = {.gpu = gpu_number(strtok_r(NULL, " ", &save))};
    r.function = strtok_r(NULL, " ", &save);
    char *action = strtok_r(NULL, " ", &save);
    r.action = strcmp(action, "hang") == 0 ? HANG : strcmp(action, "slow") == 0 ? SLOW : RETURN;
    if (r.action != HANG) r.number = atoi(save);
    s->rules[s->nrules++] = r;
  }
}

static struct state *parse(char *text, unsigned long long generation) {
  struct state *s = calloc(1, sizeof *s);
  s->generation = generation;
  s->text = text;
  int lines = 1;
  for (char *c = text; *c; c++) lines += *c == '\n';
  s->facts = calloc(lines, sizeof *s->facts);
  s->rules = calloc(lines, sizeof *s->rules);
  char *save;
  for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) parse_line(s, l);
  return s;
}

// locate finds the folder of this library and maps the control file in it.
static void locate(void) {
  Dl_info info;
  if (control || !dladdr((void *)locate, &info)) return;
  snprintf(folder, sizeof folder, "%s", info.dli_fname);
  char *slash = strrchr(folder, '/');
  if (slash) *slash = 0; else strcpy(folder, ".");
  char path[5000];
  snprintf(path, sizeof path, "%s/control", folder);
  int fd = open(path, O_RDWR);
  if (fd < 0) return;
  void *p = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (p != MAP_FAILED) control = p;
}

// now returns the machine as currently described, NULL if it isn't.
static struct state *now(void) {
  struct state *s = current;
  if (s && control && s->generation == control->generation) return s;
  pthread_mutex_lock(&mutex);
  locate();
  unsigned long long generation = control ? control->generation : 0;
  s = current;
  if (!s || s->generation != generation) {
    char *text = slurp("state");
    s = text ? parse(text, generation) : NULL;
    current = s;
  }
  pthread_mutex_unlock(&mutex);
  return s;
}

static const char *fact(const struct state *s, int gpu, const char *key) {
  for (int lo = 0, hi = s ? s->nfacts : 0; lo < hi;) { // sorted by GPU and key
    int mid = (lo + hi) / 2;
    const struct fact *f = &s->facts[mid];
    int order = f->gpu != gpu ? f->gpu - gpu : strcmp(f->key, key);
    if (order == 0) return f->value;
    if (order < 0) lo = mid + 1; else hi = mid;
  }
  return NULL;
}

static long long number(const char *v) { return strtoll(v, NULL, 0); }

static int epoch(const struct state *s) {
  const char *v = fact(s, ANY, "epoch");
  return v ? atoi(v) : 0;
}

// ---- Every call begins here: it is counted, then held, delayed or refused ----

static struct row *row_of(const char *function) {
  pthread_mutex_lock(&mutex);
  locate();
  struct row *found = NULL;
  for (int i = 0; control && i < MAX_FUNCTIONS && !found; i++) {
    struct row *r = &control->rows[i];
    if (!r->name[0]) snprintf(r->name, sizeof r->name, "%s", function);
    if (strcmp(r->name, function) == 0) found = r;
  }
  pthread_mutex_unlock(&mutex);
  return found;
}

// sleeper sleeps if the process has its own clock, as tests in a testing/synctest
// bubble do.
static _Atomic(void (*)(long)) sleeper;
void nvmlFakeSleepWith(void (*sleep_ms)(long)) { sleeper = sleep_ms; }

static void nap(long ms) {
  if (sleeper) {
    sleeper(ms);
    return;
  }
  struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

static const struct rule *match(const struct state *s, int gpu, const char *function, enum action action) {
  for (int i = 0; s && i < s->nrules; i++) {
    const struct rule *r = &s->rules[i];
    if (r->action == action && (r->gpu == ANY || r->gpu == gpu) &&
        (strcmp(r->function, "*") == 0 || strcmp(r->function, function) == 0))
      return r;
  }
  return NULL;
}

static nvmlReturn_t enter(_Atomic(struct row *) *row, const char *function, int gpu) {
  if (!*row) *row = row_of(function);
  if (*row) (*row)->calls[gpu == ANY ? MAX_GPUS : gpu]++;
  struct state *s = now();
  if (match(s, gpu, function, HANG)) {
    if (control) control->held++;
    while (match(s = now(), gpu, function, HANG)) nap(sleeper ? 50 : 1);
    if (control) control->held--;
  }
  const struct rule *r = match(s, gpu, function, SLOW);
  if (r) nap(r->number);
  if ((r = match(s, gpu, function, RETURN))) return r->number;
  return NVML_SUCCESS;
}

static nvmlReturn_t enter_ready(_Atomic(struct row *) *row, const char *function, int gpu) {
  nvmlReturn_t ret = enter(row, function, gpu);
  if (ret != NVML_SUCCESS) return ret;
  if (references <= 0) return NVML_ERROR_UNINITIALIZED;
  const char *loaded = fact(now(), ANY, "loaded");
  if (!loaded || *loaded == '0') return NVML_ERROR_UNKNOWN; // the driver went away while in use
  if (attached_epoch != epoch(now())) return NVML_ERROR_UNKNOWN;
  return NVML_SUCCESS;
}

#define ENTER_WITH(how, function, gpu)                          \
  do {                                                          \
    static _Atomic(struct row *) row_;                          \
    nvmlReturn_t ret_ = how(&row_, #function, gpu);             \
    if (ret_ != NVML_SUCCESS) return ret_;                      \
  } while (0)

// ENTER is for calls without a device, ENTER_DEVICE for calls on one.
#define ENTER(function) ENTER_WITH(enter_ready, function, ANY)
#define ENTER_DEVICE(function)                                                    \
  if (!d.handle) return NVML_ERROR_INVALID_ARGUMENT;                              \
  ENTER_WITH(enter_ready, function, HANDLE(d)->gpu)

// ---- Devices ----

struct handle { int gpu, mig; }; // mig: ANY for the whole device
static struct handle handles[MAX_GPUS][MAX_MIG + 1];
#define HANDLE(d) ((struct handle *)(d).handle)

static nvmlDevice_t handle(int gpu, int mig) {
  struct handle *h = &handles[gpu][mig == ANY ? MAX_MIG : mig];
  *h = (struct handle){gpu, mig};
  return (nvmlDevice_t){(struct nvmlDevice_st *)h};
}

static const char *value(nvmlDevice_t d, const char *key) {
  char full[128];
  if (HANDLE(d)->mig != ANY) {
    snprintf(full, sizeof full, "mig%d.%s", HANDLE(d)->mig, key);
    key = full;
  }
  return fact(now(), HANDLE(d)->gpu, key);
}

// get looks up a value. It returns SUCCESS, or the code that the call must return.
static nvmlReturn_t get(nvmlDevice_t d, const char *key, const char **v) {
  *v = value(d, key);
  if (!*v) return NVML_ERROR_NOT_SUPPORTED;
  if (**v == '!') return atoi(*v + 1);
  return NVML_SUCCESS;
}

static nvmlReturn_t get_uint(nvmlDevice_t d, const char *key, unsigned int *out) {
  const char *v;
  nvmlReturn_t ret = get(d, key, &v);
  if (ret == NVML_SUCCESS) *out = (unsigned int)number(v);
  return ret;
}

static nvmlReturn_t get_ull(nvmlDevice_t d, const char *key, unsigned long long *out) {
  const char *v;
  nvmlReturn_t ret = get(d, key, &v);
  if (ret == NVML_SUCCESS) *out = strtoull(v, NULL, 0);
  return ret;
}

static nvmlReturn_t copy(char *out, unsigned int length, const char *v) {
  if (strlen(v) + 1 > length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, v);
  return NVML_SUCCESS;
}

static nvmlReturn_t get_text(nvmlDevice_t d, const char *key, char *out, unsigned int length) {
  const char *v;
  nvmlReturn_t ret = get(d, key, &v);
  return ret == NVML_SUCCESS ? copy(out, length, v) : ret;
}

static nvmlReturn_t get_indexed(nvmlDevice_t d, const char *format, unsigned int i, unsigned int *out) {
  char key[64];
  snprintf(key, sizeof key, format, i);
  return get_uint(d, key, out);
}

// UINT defines a call that returns one number, TEXT one that returns a string.
#define UINT(function, key, type)                          \
  nvmlReturn_t function(nvmlDevice_t d, type *out) {       \
    ENTER_DEVICE(function);                                \
    return get_uint(d, key, (unsigned int *)out);          \
  }
#define TEXT(function, key)                                                      \
  nvmlReturn_t function(nvmlDevice_t d, char *out, unsigned int length) {        \
    ENTER_DEVICE(function);                                                      \
    return get_text(d, key, out, length);                                        \
  }

// ---- The library as a whole ----

static nvmlReturn_t initialize(void) {
  struct state *s = now();
  const char *loaded = fact(s, ANY, "loaded");
  if (!loaded || *loaded == '0') return NVML_ERROR_DRIVER_NOT_LOADED;
  attached_epoch = epoch(s);
  references++;
  if (control) control->initialized++;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit(void) { ENTER_WITH(enter, nvmlInit, ANY); return initialize(); }
nvmlReturn_t nvmlInit_v2(void) { ENTER_WITH(enter, nvmlInit_v2, ANY); return initialize(); }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  (void)flags;
  ENTER_WITH(enter, nvmlInitWithFlags, ANY);
  return initialize();
}

nvmlReturn_t nvmlShutdown(void) {
  ENTER_WITH(enter, nvmlShutdown, ANY);
  if (references <= 0) return NVML_ERROR_UNINITIALIZED;
  references--;
  if (control) control->initialized--;
  return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t r) {
  static __thread char text[32];
  snprintf(text, sizeof text, "fake error %d", r);
  return text;
}

static nvmlReturn_t machine_text(const char *key, char *out, unsigned int length) {
  const char *v = fact(now(), ANY, key);
  return v ? copy(out, length, v) : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int length) {
  ENTER(nvmlSystemGetDriverVersion);
  return machine_text("driver", out, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned int length) {
  ENTER(nvmlSystemGetNVMLVersion);
  return machine_text("nvml", out, length);
}

static nvmlReturn_t cuda(int *out) {
  const char *v = fact(now(), ANY, "cuda");
  if (!v) return NVML_ERROR_NOT_SUPPORTED;
  *out = (int)number(v);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { ENTER(nvmlSystemGetCudaDriverVersion); return cuda(out); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(nvmlSystemGetCudaDriverVersion_v2); return cuda(out); }

static nvmlReturn_t count(unsigned int *out) { *out = now()->gpus; return NVML_SUCCESS; }
nvmlReturn_t nvmlDeviceGetCount(unsigned int *out) { ENTER(nvmlDeviceGetCount); return count(out); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out) { ENTER(nvmlDeviceGetCount_v2); return count(out); }

// ---- Handles: where a real driver attaches the GPU ----

static nvmlReturn_t attach(_Atomic(struct row *) *row, const char *function, int gpu, nvmlDevice_t *out) {
  nvmlReturn_t ret = enter_ready(row, function, gpu);
  if (ret == NVML_SUCCESS) *out = handle(gpu, ANY);
  return ret;
}

#define ATTACH(function, gpu, out)                       \
  do {                                                   \
    static _Atomic(struct row *) row_;                   \
    return attach(&row_, #function, gpu, out);           \
  } while (0)

static int known(unsigned int index) { return now() && index < (unsigned int)now()->gpus; }

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int i, nvmlDevice_t *out) {
  if (!known(i)) return NVML_ERROR_INVALID_ARGUMENT;
  ATTACH(nvmlDeviceGetHandleByIndex, i, out);
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int i, nvmlDevice_t *out) {
  if (!known(i)) return NVML_ERROR_INVALID_ARGUMENT;
  ATTACH(nvmlDeviceGetHandleByIndex_v2, i, out);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out) {
  for (int i = 0; known(i); i++) {
    const char *v = fact(now(), i, "uuid");
    if (v && strcmp(v, uuid) == 0) ATTACH(nvmlDeviceGetHandleByUUID, i, out);
  }
  return NVML_ERROR_NOT_FOUND;
}

struct address { unsigned int domain, bus, device, function; };

static struct address address(const char *s) {
  struct address a = {0};
  if (s) sscanf(s, "%x:%x:%x.%x", &a.domain, &a.bus, &a.device, &a.function);
  return a;
}

static int by_address(const char *id) {
  struct address want = address(id);
  for (int i = 0; known(i); i++) {
    struct address a = address(fact(now(), i, "pci"));
    if (memcmp(&a, &want, sizeof a) == 0) return i;
  }
  return ANY;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *out) {
  int i = by_address(id);
  if (i == ANY) return NVML_ERROR_NOT_FOUND;
  ATTACH(nvmlDeviceGetHandleByPciBusId, i, out);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *out) {
  int i = by_address(id);
  if (i == ANY) return NVML_ERROR_NOT_FOUND;
  ATTACH(nvmlDeviceGetHandleByPciBusId_v2, i, out);
}

// ---- Identity ----

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
UINT(nvmlDeviceGetBrand, "brand", nvmlBrandType_t)
UINT(nvmlDeviceGetArchitecture, "architecture", nvmlDeviceArchitecture_t)

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t d, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetIndex);
  *out = HANDLE(d)->gpu;
  return NVML_SUCCESS;
}

static nvmlReturn_t pci_of(nvmlDevice_t d, const char *key, nvmlPciInfo_t *out) {
  const char *v;
  nvmlReturn_t ret = get(d, key, &v);
  if (ret != NVML_SUCCESS) return ret;
  struct address a = address(v);
  memset(out, 0, sizeof *out);
  out->domain = a.domain;
  out->bus = a.bus;
  out->device = a.device;
  snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.%X", a.domain & 0xffff, a.bus & 0xff, a.device & 0x1f, a.function & 7);
  snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.%X", a.domain, a.bus & 0xff, a.device & 0x1f, a.function & 7);
  return NVML_SUCCESS;
}
static nvmlReturn_t pci(nvmlDevice_t d, nvmlPciInfo_t *out) { return pci_of(d, "pci", out); }
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, nvmlPciInfo_t *out) { ENTER_DEVICE(nvmlDeviceGetPciInfo_v2); return pci(d, out); }
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *out) { ENTER_DEVICE(nvmlDeviceGetPciInfo_v3); return pci(d, out); }

// ---- Utilization and memory ----

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *out) {
  ENTER_DEVICE(nvmlDeviceGetUtilizationRates);
  nvmlReturn_t ret = get_uint(d, "utilization", &out->gpu);
  return ret != NVML_SUCCESS ? ret : get_uint(d, "memory_utilization", &out->memory);
}

#define ENGINE(function, key)                                                          \
  nvmlReturn_t function(nvmlDevice_t d, unsigned int *out, unsigned int *period) {     \
    ENTER_DEVICE(function);                                                            \
    *period = 166666;                                                                  \
    return get_uint(d, key, out);                                                      \
  }
ENGINE(nvmlDeviceGetEncoderUtilization, "encoder")
ENGINE(nvmlDeviceGetDecoderUtilization, "decoder")
ENGINE(nvmlDeviceGetJpgUtilization, "jpeg")
ENGINE(nvmlDeviceGetOfaUtilization, "ofa")

nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t d, unsigned int *sessions, unsigned int *fps, unsigned int *latency) {
  ENTER_DEVICE(nvmlDeviceGetEncoderStats);
  nvmlReturn_t ret = get_uint(d, "encoder_sessions", sessions);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "encoder_fps", fps);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "encoder_latency", latency);
  return ret;
}

// The first call counts the driver's reserve as used memory, the second doesn't.
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *out) {
  ENTER_DEVICE(nvmlDeviceGetMemoryInfo);
  unsigned long long reserved = 0;
  nvmlReturn_t ret = get_ull(d, "memory_total", &out->total);
  if (ret != NVML_SUCCESS || (ret = get_ull(d, "memory_used", &out->used)) != NVML_SUCCESS) return ret;
  get_ull(d, "memory_reserved", &reserved);
  out->used += reserved;
  out->free = out->total - out->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *out) {
  ENTER_DEVICE(nvmlDeviceGetMemoryInfo_v2);
  if (out->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlReturn_t ret = get_ull(d, "memory_total", &out->total);
  if (ret != NVML_SUCCESS || (ret = get_ull(d, "memory_used", &out->used)) != NVML_SUCCESS) return ret;
  out->reserved = 0;
  get_ull(d, "memory_reserved", &out->reserved);
  out->free = out->total - out->used - out->reserved;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *out) {
  ENTER_DEVICE(nvmlDeviceGetBAR1MemoryInfo);
  nvmlReturn_t ret = get_ull(d, "bar1_total", &out->bar1Total);
  if (ret != NVML_SUCCESS || (ret = get_ull(d, "bar1_used", &out->bar1Used)) != NVML_SUCCESS) return ret;
  out->bar1Free = out->bar1Total - out->bar1Used;
  return NVML_SUCCESS;
}

// ---- Heat and fans ----

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t sensor, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetTemperature);
  return sensor == NVML_TEMPERATURE_GPU ? get_uint(d, "temperature", out) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, nvmlTemperature_t *out) {
  ENTER_DEVICE(nvmlDeviceGetTemperatureV);
  if (out->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return get_uint(d, "temperature", (unsigned int *)&out->temperature);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, nvmlTemperatureThresholds_t which, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetTemperatureThreshold);
  return get_indexed(d, "threshold%u", which, out);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t d, nvmlMarginTemperature_t *out) {
  ENTER_DEVICE(nvmlDeviceGetMarginTemperature);
  if (out->version != nvmlMarginTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return get_uint(d, "margin", (unsigned int *)&out->marginTemperature);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *values) {
  ENTER_DEVICE(nvmlDeviceGetFieldValues);
  for (int i = 0; i < n; i++) {
    values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    int speed = values[i].fieldId == NVML_FI_DEV_NVLINK_GET_SPEED; // the scope is the link
    values[i].nvmlReturn = get_indexed(d, speed ? "link%u.speed" : "field%u", speed ? values[i].scopeId : values[i].fieldId,
                                       &values[i].value.uiVal);
  }
  return NVML_SUCCESS;
}

UINT(nvmlDeviceGetNumFans, "fans", unsigned int)

nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t d, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetFanSpeed);
  return get_uint(d, "fan0.speed", out);
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t d, unsigned int fan, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetFanSpeed_v2);
  return get_indexed(d, "fan%u.speed", fan, out);
}

nvmlReturn_t nvmlDeviceGetTargetFanSpeed(nvmlDevice_t d, unsigned int fan, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetTargetFanSpeed);
  return get_indexed(d, "fan%u.target", fan, out);
}

nvmlReturn_t nvmlDeviceGetFanControlPolicy_v2(nvmlDevice_t d, unsigned int fan, nvmlFanControlPolicy_t *out) {
  ENTER_DEVICE(nvmlDeviceGetFanControlPolicy_v2);
  return get_indexed(d, "fan%u.policy", fan, out);
}

nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t d, nvmlFanSpeedInfo_t *out) {
  ENTER_DEVICE(nvmlDeviceGetFanSpeedRPM);
  if (out->version != nvmlFanSpeedInfo_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return get_indexed(d, "fan%u.rpm", out->fan, &out->speed);
}

// ---- Power, clocks, link ----

UINT(nvmlDeviceGetPowerUsage, "power", unsigned int)
UINT(nvmlDeviceGetEnforcedPowerLimit, "power_limit", unsigned int)
UINT(nvmlDeviceGetPowerManagementDefaultLimit, "power_default_limit", unsigned int)

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t d, unsigned int *min, unsigned int *max) {
  ENTER_DEVICE(nvmlDeviceGetPowerManagementLimitConstraints);
  nvmlReturn_t ret = get_uint(d, "power_min_limit", min);
  return ret != NVML_SUCCESS ? ret : get_uint(d, "power_max_limit", max);
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *out) {
  ENTER_DEVICE(nvmlDeviceGetTotalEnergyConsumption);
  return get_ull(d, "energy", out);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetClockInfo);
  return get_indexed(d, "clock%u", type, out);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetMaxClockInfo);
  return get_indexed(d, "max_clock%u", type, out);
}

UINT(nvmlDeviceGetPerformanceState, "pstate", nvmlPstates_t)

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *out) {
  ENTER_DEVICE(nvmlDeviceGetCurrentClocksEventReasons);
  return get_ull(d, "event_reasons", out);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *out) {
  ENTER_DEVICE(nvmlDeviceGetCurrentClocksThrottleReasons);
  return get_ull(d, "event_reasons", out);
}

UINT(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation", unsigned int)
UINT(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", unsigned int)
UINT(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_max_generation", unsigned int)
UINT(nvmlDeviceGetMaxPcieLinkWidth, "pcie_max_width", unsigned int)
UINT(nvmlDeviceGetPcieReplayCounter, "pcie_replays", unsigned int)

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, nvmlPcieUtilCounter_t counter, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetPcieThroughput);
  return get_indexed(d, "pcie_throughput%u", counter, out);
}

// ---- NVLink: a link's keys begin with "link<n>." ----

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, nvmlEnableState_t *out) {
  ENTER_DEVICE(nvmlDeviceGetNvLinkState);
  return get_indexed(d, "link%u.state", link, out);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, unsigned int link, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetNvLinkVersion);
  return get_indexed(d, "link%u.version", link, out);
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t d, unsigned int link, nvmlNvLinkErrorCounter_t counter, unsigned long long *out) {
  ENTER_DEVICE(nvmlDeviceGetNvLinkErrorCounter);
  char key[64];
  snprintf(key, sizeof key, "link%u.errors%d", link, counter);
  return get_ull(d, key, out);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned int link, nvmlIntNvLinkDeviceType_t *out) {
  ENTER_DEVICE(nvmlDeviceGetNvLinkRemoteDeviceType);
  return get_indexed(d, "link%u.peer", link, out);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int link, nvmlPciInfo_t *out) {
  ENTER_DEVICE(nvmlDeviceGetNvLinkRemotePciInfo_v2);
  char key[64];
  snprintf(key, sizeof key, "link%u.pci", link);
  return pci_of(d, key, out);
}

// ---- Health and modes ----

UINT(nvmlDeviceGetVirtualizationMode, "virtualization", nvmlGpuVirtualizationMode_t)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, nvmlEnableState_t *now_, nvmlEnableState_t *pending) {
  ENTER_DEVICE(nvmlDeviceGetEccMode);
  nvmlReturn_t ret = get_uint(d, "ecc", now_);
  if (ret != NVML_SUCCESS) return ret;
  *pending = *now_;
  get_uint(d, "ecc_pending", pending);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, unsigned long long *out) {
  ENTER_DEVICE(nvmlDeviceGetTotalEccErrors);
  char key[64];
  snprintf(key, sizeof key, "ecc_errors.%d.%d", type, counter);
  return get_ull(d, key, out);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned int *corr, unsigned int *unc, unsigned int *pending, unsigned int *failed) {
  ENTER_DEVICE(nvmlDeviceGetRemappedRows);
  nvmlReturn_t ret = get_uint(d, "remapped_correctable", corr);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "remapped_uncorrectable", unc);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "remap_pending", pending);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "remap_failed", failed);
  return ret;
}

static nvmlReturn_t retired(nvmlDevice_t d, nvmlPageRetirementCause_t cause, unsigned int *n, unsigned long long *pages) {
  unsigned int have, room = *n;
  nvmlReturn_t ret = get_indexed(d, "retired%u", cause, &have);
  if (ret != NVML_SUCCESS) return ret;
  *n = have;
  if (room < have) return NVML_ERROR_INSUFFICIENT_SIZE;
  for (unsigned int i = 0; pages && i < have; i++) pages[i] = 0x1000 * (i + 1);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t d, nvmlPageRetirementCause_t cause, unsigned int *n, unsigned long long *pages) {
  ENTER_DEVICE(nvmlDeviceGetRetiredPages);
  return retired(d, cause, n, pages);
}
nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t d, nvmlPageRetirementCause_t cause, unsigned int *n, unsigned long long *pages, unsigned long long *times) {
  ENTER_DEVICE(nvmlDeviceGetRetiredPages_v2);
  nvmlReturn_t ret = retired(d, cause, n, pages);
  for (unsigned int i = 0; ret == NVML_SUCCESS && times && i < *n; i++) times[i] = 0;
  return ret;
}
UINT(nvmlDeviceGetRetiredPagesPendingStatus, "retirement_pending", nvmlEnableState_t)

UINT(nvmlDeviceGetPersistenceMode, "persistence", nvmlEnableState_t)
UINT(nvmlDeviceGetComputeMode, "compute_mode", nvmlComputeMode_t)
UINT(nvmlDeviceGetDisplayActive, "display_active", nvmlEnableState_t)

// ---- MIG ----

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *now_, unsigned int *pending) {
  ENTER_DEVICE(nvmlDeviceGetMigMode);
  nvmlReturn_t ret = get_uint(d, "mig", now_);
  if (ret != NVML_SUCCESS) return ret;
  *pending = *now_;
  get_uint(d, "mig_pending", pending);
  return NVML_SUCCESS;
}

UINT(nvmlDeviceGetMaxMigDeviceCount, "mig_max", unsigned int)

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned int i, nvmlDevice_t *out) {
  ENTER_DEVICE(nvmlDeviceGetMigDeviceHandleByIndex);
  if (i >= MAX_MIG) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlDevice_t mig = handle(HANDLE(d)->gpu, i);
  if (!value(mig, "uuid")) return NVML_ERROR_NOT_FOUND;
  *out = mig;
  return NVML_SUCCESS;
}

UINT(nvmlDeviceGetGpuInstanceId, "gi", unsigned int)
UINT(nvmlDeviceGetComputeInstanceId, "ci", unsigned int)

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *out) {
  ENTER_DEVICE(nvmlDeviceGetAttributes_v2);
  memset(out, 0, sizeof *out);
  nvmlReturn_t ret = get_uint(d, "multiprocessors", &out->multiprocessorCount);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "slices", &out->gpuInstanceSliceCount);
  if (ret == NVML_SUCCESS) ret = get_uint(d, "compute_slices", &out->computeInstanceSliceCount);
  return ret;
}

// ---- Processes ----

// A process is "kind pid memory gi ci", each number one word.
struct process { char kind[16]; unsigned int pid; unsigned long long memory; unsigned int gi, ci; };

static int process(nvmlDevice_t d, int i, struct process *p) {
  char key[32];
  snprintf(key, sizeof key, "process%03d", i);
  const char *v = value(d, key);
  return v && sscanf(v, "%15s %u %llu %u %u", p->kind, &p->pid, &p->memory, &p->gi, &p->ci) == 5;
}

// Rows have 16, 24 or 32 bytes, by version and driver: the last two add
// fields at the end, and one driver series gave 32 where 24 were promised.
static nvmlReturn_t processes(nvmlDevice_t d, const char *kind, unsigned int row, unsigned int *n, void *out) {
  const char *v;
  nvmlReturn_t ret = get(d, "processes", &v);
  if (ret != NVML_SUCCESS) return ret;
  unsigned int room = *n, found = 0;
  struct process p;
  for (int i = 0; process(d, i, &p); i++) {
    if (strcmp(p.kind, kind) != 0) continue;
    if (found < room && out) {
      nvmlProcessDetail_v1_t full = {p.pid, p.memory, p.gi, p.ci, 0};
      memcpy((char *)out + found * row, &full, row);
    }
    found++;
  }
  *n = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static unsigned int third_row(void) {
  const char *v = fact(now(), ANY, "process_row");
  return v ? (unsigned int)atoi(v) : sizeof(nvmlProcessInfo_v2_t);
}

#define PROCESSES(function, kind, type, row)                                         \
  nvmlReturn_t function(nvmlDevice_t d, unsigned int *n, type *out) {                \
    ENTER_DEVICE(function);                                                          \
    return processes(d, kind, row, n, out);                                          \
  }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, "compute", nvmlProcessInfo_v1_t, sizeof *out)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "compute", nvmlProcessInfo_v2_t, sizeof *out)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "compute", nvmlProcessInfo_t, third_row())
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, "graphics", nvmlProcessInfo_v1_t, sizeof *out)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics", nvmlProcessInfo_v2_t, sizeof *out)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics", nvmlProcessInfo_t, third_row())
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, "mps", nvmlProcessInfo_v1_t, sizeof *out)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps", nvmlProcessInfo_v2_t, sizeof *out)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps", nvmlProcessInfo_t, third_row())

// moment returns the driver's time in microseconds: the machine's fact "time" or,
// without it, the system's time.
static unsigned long long moment(clockid_t system) {
  const char *v = fact(now(), ANY, "time");
  if (v) return strtoull(v, NULL, 10);
  struct timespec t;
  clock_gettime(system, &t);
  return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

// A sample is "pid time sm memory encoder decoder"; time is in microseconds
// since 1970, or 0 for now.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, nvmlProcessUtilizationSample_t *out, unsigned int *n, unsigned long long last_seen) {
  ENTER_DEVICE(nvmlDeviceGetProcessUtilization);
  const char *v;
  nvmlReturn_t ret = get(d, "samples", &v);
  if (ret != NVML_SUCCESS) return ret;
  unsigned long long this_moment = moment(CLOCK_REALTIME);
  unsigned int room = out ? *n : 0, found = 0;
  for (int i = 0;; i++) {
    char key[32];
    snprintf(key, sizeof key, "sample%03d", i);
    nvmlProcessUtilizationSample_t s;
    if (!(v = value(d, key)) ||
        sscanf(v, "%u %llu %u %u %u %u", &s.pid, &s.timeStamp, &s.smUtil, &s.memUtil, &s.encUtil, &s.decUtil) != 6)
      break;
    if (s.timeStamp == 0) s.timeStamp = this_moment;
    if (s.timeStamp <= last_seen) continue;
    if (found < room) out[found] = s;
    found++;
  }
  *n = found;
  if (found == 0) return NVML_ERROR_NOT_FOUND;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

// ---- Accounting ----

UINT(nvmlDeviceGetAccountingMode, "accounting", nvmlEnableState_t)
UINT(nvmlDeviceGetAccountingBufferSize, "accounting_size", unsigned int)

// An accounted process is "pid utilization memory_utilization memory time start running", each number one word: memory in bytes, time in
// milliseconds, start in microseconds since 1970. Nothing is returned while the mode is off.
static nvmlReturn_t accounted(nvmlDevice_t d, int i, unsigned int *pid, nvmlAccountingStats_t *s) {
  unsigned int on = 0;
  nvmlReturn_t ret = get_uint(d, "accounting", &on);
  if (ret != NVML_SUCCESS || !on) return NVML_ERROR_NOT_SUPPORTED;
  char key[32];
  snprintf(key, sizeof key, "accounted%03d", i);
  const char *v = value(d, key);
  memset(s, 0, sizeof *s);
  return v && sscanf(v, "%u %u %u %llu %llu %llu %u", pid, &s->gpuUtilization, &s->memoryUtilization, &s->maxMemoryUsage,
                     &s->time, &s->startTime, &s->isRunning) == 7 ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t d, unsigned int *n, unsigned int *out) {
  ENTER_DEVICE(nvmlDeviceGetAccountingPids);
  unsigned int room = out ? *n : 0, found = 0, pid;
  nvmlAccountingStats_t s;
  nvmlReturn_t ret;
  for (; (ret = accounted(d, found, &pid, &s)) == NVML_SUCCESS; found++)
    if (found < room) out[found] = pid;
  if (ret != NVML_ERROR_NOT_FOUND) return ret;
  *n = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t d, unsigned int pid, nvmlAccountingStats_t *out) {
  ENTER_DEVICE(nvmlDeviceGetAccountingStats);
  unsigned int of;
  nvmlReturn_t ret;
  for (int i = 0; (ret = accounted(d, i, &of, out)) == NVML_SUCCESS; i++)
    if (of == pid) return NVML_SUCCESS;
  return ret;
}

// ---- Counters (GPM) ----

// A sample records its GPU or instance and when it was taken. Comparing two samples
// returns the current values of the GPU's keys "gpm<metric>", or "gi<n>.gpm<metric>"
// for a GPU instance.
struct gpm_sample { int gpu, gi; unsigned long long taken; }; // gpu: ANY until filled; gi: ANY for the whole GPU; taken: microseconds
#define SAMPLE(s) ((struct gpm_sample *)(s).handle)

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t d, nvmlGpmSupport_t *out) {
  ENTER_DEVICE(nvmlGpmQueryDeviceSupport);
  if (out->version != NVML_GPM_SUPPORT_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  nvmlReturn_t ret = get_uint(d, "gpm", &out->isSupportedDevice);
  if (ret == NVML_ERROR_NOT_SUPPORTED) { // for this call that is a valid answer
    out->isSupportedDevice = 0;
    ret = NVML_SUCCESS;
  }
  return ret;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out) {
  ENTER(nvmlGpmSampleAlloc);
  struct gpm_sample *sample = malloc(sizeof *sample);
  *sample = (struct gpm_sample){ANY, ANY, 0};
  *out = (nvmlGpmSample_t){(struct nvmlGpmSample_st *)sample};
  if (control) control->samples++;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
  ENTER_WITH(enter, nvmlGpmSampleFree, ANY);
  if (!sample.handle) return NVML_ERROR_INVALID_ARGUMENT;
  free(sample.handle);
  if (control) control->samples--;
  return NVML_SUCCESS;
}

// sample fills a sample: of the whole GPU outside MIG mode, of a GPU instance in it.
static nvmlReturn_t sample_of(nvmlDevice_t d, int gi, nvmlGpmSample_t sample) {
  if (!sample.handle) return NVML_ERROR_INVALID_ARGUMENT;
  unsigned int supported = 0, mig = 0;
  nvmlReturn_t ret = get_uint(d, "gpm", &supported);
  if (ret != NVML_SUCCESS) return ret;
  get_uint(d, "mig", &mig);
  if (!supported || (mig != 0) == (gi == ANY)) return NVML_ERROR_NOT_SUPPORTED;
  *SAMPLE(sample) = (struct gpm_sample){HANDLE(d)->gpu, gi, moment(CLOCK_MONOTONIC)};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t d, nvmlGpmSample_t sample) {
  ENTER_DEVICE(nvmlGpmSampleGet);
  return sample_of(d, ANY, sample);
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t d, unsigned int gi, nvmlGpmSample_t sample) {
  ENTER_DEVICE(nvmlGpmMigSampleGet);
  return sample_of(d, gi, sample);
}

// Samples that don't belong together are refused, and so are samples less than
// 100 ms apart, for which the documentation promises nothing.
nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get) {
  ENTER(nvmlGpmMetricsGet);
  if (get->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  struct gpm_sample *before = SAMPLE(get->sample1), *after = SAMPLE(get->sample2);
  if (!before || !after || before->gpu == ANY || before->gpu != after->gpu || before->gi != after->gi ||
      get->numMetrics > NVML_GPM_METRIC_MAX)
    return NVML_ERROR_INVALID_ARGUMENT;
  if (after->taken < before->taken + 100000) return NVML_ERROR_UNKNOWN;
  for (unsigned int i = 0; i < get->numMetrics; i++) {
    nvmlGpmMetric_t *m = &get->metrics[i];
    char key[32];
    if (before->gi == ANY) snprintf(key, sizeof key, "gpm%u", m->metricId);
    else snprintf(key, sizeof key, "gi%d.gpm%u", before->gi, m->metricId);
    const char *v = fact(now(), before->gpu, key);
    m->nvmlReturn = !v ? NVML_ERROR_NOT_SUPPORTED : *v == '!' ? atoi(v + 1) : NVML_SUCCESS;
    m->value = m->nvmlReturn == NVML_SUCCESS ? strtod(v, NULL) : 0;
    m->metricInfo.shortName = m->metricInfo.longName = m->metricInfo.unit = NULL;
  }
  return NVML_SUCCESS;
}

// ---- Events ----

// A GPU's XIDs are "xid000", "xid001" … in the order in which they happen. A set
// delivers those raised after the GPU was registered in it.
struct event_set { int next[MAX_GPUS]; }; // -1: not registered

static int xid(int gpu, int i) {
  char key[32];
  snprintf(key, sizeof key, "xid%03d", i);
  const char *v = fact(now(), gpu, key);
  return v ? atoi(v) : 0;
}

// A driver may deliver a GPU's events to the set of another GPU.
static int heard_by(int gpu) {
  const char *v = fact(now(), gpu, "xids_heard_by");
  return v ? atoi(v) : gpu;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out) {
  ENTER(nvmlEventSetCreate);
  struct event_set *set = malloc(sizeof *set);
  for (int i = 0; i < MAX_GPUS; i++) set->next[i] = -1;
  *out = (nvmlEventSet_t){(struct nvmlEventSet_st *)set};
  if (control) control->event_sets++;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  ENTER_WITH(enter, nvmlEventSetFree, ANY);
  free(set.handle);
  if (control) control->event_sets--;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t set) {
  ENTER_DEVICE(nvmlDeviceRegisterEvents);
  if (types != nvmlEventTypeXidCriticalError) return NVML_ERROR_NOT_SUPPORTED;
  for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
    if (heard_by(gpu) != HANDLE(d)->gpu) continue;
    int *next = &((struct event_set *)set.handle)->next[gpu];
    for (*next = 0; xid(gpu, *next);) ++*next;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, unsigned int timeout) {
  ENTER(nvmlEventSetWait_v2);
  for (unsigned int waited = 0;; waited++, nap(1)) {
    for (int gpu = 0; gpu < MAX_GPUS; gpu++) {
      int *next = &((struct event_set *)set.handle)->next[gpu];
      int code = *next < 0 ? 0 : xid(gpu, *next);
      if (!code) continue;
      ++*next;
      *out = (nvmlEventData_t){.device = handle(gpu, ANY), .eventType = nvmlEventTypeXidCriticalError, .eventData = code,
                               .gpuInstanceId = 0xffffffff, .computeInstanceId = 0xffffffff};
      return NVML_SUCCESS;
    }
    if (waited >= timeout) return NVML_ERROR_TIMEOUT;
  }
}
