// The tables that plug-ins see: one pl_host for each subgraph that has plug-ins.
//
// The tables consist of TensorFlow Lite's own structs, which plug-ins and the host share: nothing is copied for a call.
// Pointers into the tables stay valid as long as the pl_host.
//
// The files.  Each calls only functions of files before it in this list, which tests/capi/test_structure.py checks:
//
//   profiler.c         context->profiler, for `pylite bench`
//   trap.c             calls functions of plug-ins; C++ exceptions and known faults become errors
//   registrations.c    reads and checks the registrations, operators and delegates of a library
//   buffer_handles.c   reads back and frees tensors whose contents are in a delegate's own memory
//   delegate_params.c  TfLiteDelegateParams, for the kernels of delegates and for previews
//   checks.c           guard bands, and checks of what a plug-in did to its node and its tensors
//   calls.c            init, prepare, invoke and free of a node's plug-in
//   tables.c           creates, fills and frees the tables
//   delegates.c        applies a delegate, adds its nodes, removes them again
//   context.c          the functions of TfLiteContext, which plug-ins call
//
// hosting.pyx and kernels.pyx call these files.  Three shared libraries do not: guard.cc catches C++ exceptions for
// trap.c; opaque_*.c export the functions of common.h, operator.h and c_api_opaque.h, which plug-ins import; resolver.c
// exports MutableOpResolver::AddCustom.
#ifndef PYLITE_HOST_H
#define PYLITE_HOST_H

#include "abi.h"
#include "../../include/tensorflow/lite/c/operator.h"
#include "guards.h"

// An op behind an opaque type.  The callbacks with `data` take precedence.
#define PL_OPERATOR_MAGIC 0x726f74617265706fu     // set by TfLiteOperatorCreate() of opaque_operators.c
struct TfLiteOperator {
  uint64_t magic;
  TfLiteBuiltinOperator builtin_code;
  char *custom_name;
  int version;
  void *user_data;
  void *(*init)(TfLiteOpaqueContext *, const char *, size_t);
  void (*free)(TfLiteOpaqueContext *, void *);
  TfLiteStatus (*prepare)(TfLiteOpaqueContext *, TfLiteOpaqueNode *);
  TfLiteStatus (*invoke)(TfLiteOpaqueContext *, TfLiteOpaqueNode *);
  void *(*init_with_data)(void *, TfLiteOpaqueContext *, const char *, size_t);
  void (*free_with_data)(void *, TfLiteOpaqueContext *, void *);
  TfLiteStatus (*prepare_with_data)(void *, TfLiteOpaqueContext *, TfLiteOpaqueNode *);
  TfLiteStatus (*invoke_with_data)(void *, TfLiteOpaqueContext *, TfLiteOpaqueNode *);
  uint64_t inplace_operator;
};

typedef struct pl_node {
  TfLiteNode node;            // first: a plug-in's TfLiteNode * is a pl_node *
  TfLiteRegistration reg;
  TfLiteOperator *op;         // runs the node, if its plug-in uses opaque types; else NULL
  TfLiteOperator *identity;   // describes a model's node to such plug-ins; created on first request
  TfLiteIntArray *inputs;     // the model's, as delegates may edit node.inputs
  bool owns_op, initialised;
  bool trapped;               // are its functions a library's?  Then they are called through pl_trapped(),
  bool trap_invoke;           // but invoke() only until it has succeeded once after prepare()
} pl_node;

typedef struct pl_host pl_host;
typedef struct pl_profiler pl_profiler;

// Callbacks into Python; each returns a status.
typedef struct pl_callbacks {
  TfLiteStatus (*replace)(pl_host *, const TfLiteRegistration *, TfLiteOperator *, const TfLiteIntArray *nodes,
                          TfLiteDelegate *);
  TfLiteStatus (*preview)(pl_host *, const TfLiteIntArray *nodes);     // calls pl_host_add_preview()
  TfLiteStatus (*metadata)(pl_host *, const char *name, const char **data, size_t *bytes);
  TfLiteStatus (*subgraph)(pl_host *, int index, TfLiteContext **);
} pl_callbacks;

// Memory that the host allocated for a dynamic tensor, with a guard band after it.
typedef struct pl_allocated {
  const char *data;
  size_t bytes;
} pl_allocated;

struct pl_host {
  TfLiteContext context;      // first: a plug-in's TfLiteContext * is a pl_host *
  TfLiteTensor *tensors;      // the right values of context.tensors and context.tensors_size,
  size_t num_tensors;         // which plug-ins could overwrite
  size_t capacity;            // of the table of tensors
  size_t model_tensors;       // number of the model's tensors; plug-ins added those after them
  size_t max_bytes;           // most bytes of a tensor that the host allocates
  pl_allocated *allocated;    // for each tensor; data is NULL if the host did not allocate it
  bool invoking;              // is a kernel running?
  const struct pl_watched *watched;     // its tensors
  int num_watched;
  pl_node **nodes;
  int num_nodes, model_nodes;
  TfLiteIntArray *plan, *model_plan;
  TfLiteIntArray *plan_copy;  // the last result of GetExecutionPlan
  TfLiteIntArray *inputs, *outputs, *variables;
  TfLiteExternalContext **externals;
  TfLiteDelegateParams *previews;
  int num_previews;
  char *errors;               // text reported since hosting.pyx last read it, or NULL
  char *name;
  bool delegating;            // is a delegate's Prepare running?
  pl_host *lent_to;           // the host whose delegate has acquired this context in its Prepare, or NULL
  pl_profiler *profiler;      // context.profiler, or NULL if nobody profiles
  bool skippable;             // has a delegate marked the subgraph as skippable by other delegates?
  void *python;               // the PluginHost object
  const pl_callbacks *callbacks;
};

// ---- profiler.c ----

#define PL_EVENT_NAME 104
// The events of one name that plug-ins have reported while a node ran.
typedef struct pl_event {
  const pl_node *node;
  char name[PL_EVENT_NAME];   // followed by the index of a delegate's operator, if there is one: "name:7"
  uint64_t calls, nanoseconds;
} pl_event;

pl_profiler *pl_profiler_new(void);         // NULL when out of memory
void pl_profiler_free(pl_profiler *);
void pl_profiler_record(pl_profiler *, bool on);
void pl_profiler_running(pl_profiler *, const pl_node *);       // the node that runs from now on, or NULL
int pl_profiler_events(pl_profiler *, const pl_event **);       // number of events since pl_profiler_clear()
void pl_profiler_clear(pl_profiler *);      // also stops recording

// ---- trap.c ----

extern pl_guards pl_guard;

// guards: from guard.cc, or NULL for plain calls.  catch_faults: if false, faults in plug-ins end the process.
void pl_set_guards(const pl_guards *guards, bool catch_faults);

#define PL_NO_ACCESS_BYTES 65536
void *pl_no_access_new(void);               // pages without access rights; NULL when out of memory
void pl_no_access_free(void *);

// Calls fn(arguments).  Faults that are typical of plug-ins for another runtime are reported, and become errors.
TfLiteStatus pl_trapped(TfLiteStatus (*fn)(void *), void *arguments, TfLiteContext *);
void *pl_trap_suspend(void);                // before Python runs inside such a call; pass the result to
void pl_trap_resume(void *);

// ---- registrations.c ----

// Does the struct look valid?  Functions must be in a loaded library, and an operator must have the magic number.
bool pl_registration_plausible(const TfLiteRegistration *);
bool pl_operator_plausible(const TfLiteOperator *);
bool pl_delegate_plausible(const TfLiteDelegate *);

// Copies the fields that binaries of all versions have.  *op: the operator of a registration without functions, or
// NULL.
void pl_registration_read(const TfLiteRegistration *from, TfLiteRegistration *to, TfLiteOperator **op);

// ---- buffer_handles.c ----

TfLiteStatus pl_host_read_back(pl_host *, int tensor);      // copies a stale tensor from the delegate's buffer
void pl_host_free_handles(pl_host *);

// ---- delegate_params.c ----

// The struct and its arrays are one block, which one free() releases.
TfLiteDelegateParams *pl_delegate_params_new(TfLiteDelegate *, const TfLiteIntArray *nodes,
                                             const TfLiteIntArray *inputs, const TfLiteIntArray *outputs);
TfLiteOpaqueDelegateParams *pl_opaque_delegate_params_new(TfLiteDelegate *, const TfLiteIntArray *nodes,
                                                          const TfLiteIntArray *inputs, const TfLiteIntArray *outputs);
// Appends a partition to the result of PreviewDelegatePartitioning.  0, or -1 when out of memory.
int pl_host_add_preview(pl_host *, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                        const TfLiteIntArray *outputs);
void pl_host_drop_previews(pl_host *);

// ---- checks.c ----

#define PL_BAND 64
void pl_write_band(char *);
bool pl_band_intact(const char *);

// Reallocates a dynamic tensor, keeping its contents, with a guard band after it.
TfLiteStatus pl_host_allocate(pl_host *, TfLiteTensor *, size_t bytes);
// The first dynamic output or temporary of the node after which the band was overwritten, or -1.
int pl_node_overran(const pl_host *, const pl_node *);
// Writes a tensor's index, name, shape and bytes for a message.
#define PL_TENSOR_TEXT 256
void pl_tensor_text(const pl_host *, int tensor, char *, size_t);

// The operands of a node before prepare(), which must not change them.
typedef struct pl_operands {
  TfLiteIntArray *inputs, *outputs;
  const TfLiteIntArray *intermediates;
} pl_operands;
void pl_remember_operands(const pl_node *, pl_operands *);
TfLiteStatus pl_check_operands(pl_host *, pl_node *, const pl_operands *before);    // restores and reports changes

// Did a plug-in change context->tensors or its size?  Then restores them, and reports.
bool pl_table_changed(pl_host *);

// A tensor of a node before invoke(), which may only change the contents of outputs and the sizes of dynamic tensors.
#define PL_WATCHED_DIMS 8
typedef struct pl_watched {
  int tensor;
  bool input;                 // set by the caller, as `tensor` is
  TfLiteType type;
  TfLiteAllocationType where;
  char *data;
  size_t bytes;
  const TfLiteIntArray *dims;
  int rank, shape[PL_WATCHED_DIMS];     // -1 without a shape
} pl_watched;
void pl_watch(const pl_host *, pl_watched *, int count);
bool pl_watched_changed(pl_host *, const pl_watched *, int count);    // restores changed tensors, and reports

// ---- calls.c ----

void pl_node_set_kernel(pl_node *, const TfLiteRegistration *, TfLiteOperator *);
// Lets a plug-in run node `index` of the model.  trapped: are its functions a library's? See trap.c.
void pl_host_set_kernel(pl_host *, int index, const TfLiteRegistration *, TfLiteOperator *, bool trapped);

TfLiteStatus pl_node_init(pl_host *, pl_node *, const char *buffer, size_t length);
TfLiteStatus pl_node_prepare(pl_host *, pl_node *);
void pl_node_finalize(pl_host *, pl_node *);    // the plug-in's free(); only the first call has an effect

// The name that the plug-in gives the node in profiles, or NULL.
const char *pl_node_profiling_string(pl_host *, pl_node *);

// A tensor of a plug-in node, and the memory it is bound to.
typedef struct pl_binding {
  int tensor;
  char *data;
  size_t bytes;
  bool band;                  // are there guard bands of PL_BAND bytes before and after the tensor?
} pl_binding;

enum { PL_FAILED = 1, PL_OVERRUN, PL_UNDERRUN };

// Calls invoke() of the plug-in.  Returns 0, PL_FAILED, or PL_OVERRUN or PL_UNDERRUN if the guard band after or
// before a tensor was overwritten.
int pl_node_invoke(pl_host *, pl_node *, const pl_binding *bindings, int count, pl_watched *, int num_watched);

// ---- tables.c ----

// fill: sets the functions of the context.  Pass pl_context_fill(), which tables.c must not call itself.
pl_host *pl_host_new(size_t tensors, void (*fill)(TfLiteContext *), const pl_callbacks *callbacks, void *python,
                     TfLiteExternalContext **externals);
void pl_host_free(pl_host *);
pl_node *pl_node_new(pl_host *);
void pl_node_free(pl_host *, pl_node *);

// Describe a tensor, or add a node of the model.  Strings and arrays are copied; `data` and `options` stay the
// caller's and must outlive the host.  Return 0, or -1 when out of memory.
int pl_host_set_tensor(pl_host *, int index, const char *name, int type, const TfLiteIntArray *dims,
                       const TfLiteIntArray *signature, int allocation_type, const void *data, size_t bytes,
                       int is_variable);
int pl_host_set_quantization(pl_host *, int index, const float *scales, const int64_t *zero_points, int count,
                             int axis);
int pl_host_set_blockwise(pl_host *, int index, int scale, int zero_point, int block_size, int axis);
// The caller sets the arrays, which the tensor then owns, and the metadata of the dimensions.
TfLiteSparsity *pl_host_add_sparsity(pl_host *, int index, int dimensions);
int pl_host_add_node(pl_host *, int builtin_code, const char *custom_name, int version, const TfLiteIntArray *inputs,
                     const TfLiteIntArray *outputs, const TfLiteIntArray *intermediates, const void *params,
                     size_t params_size, const void *options, int options_size);

// ---- delegates.c ----

TfLiteStatus pl_host_apply_delegate(pl_host *, TfLiteDelegate *);
TfLiteStatus pl_host_add_delegate_node(pl_host *, const TfLiteRegistration *, TfLiteOperator *, TfLiteDelegate *,
                                       const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                                       const TfLiteIntArray *outputs);
void pl_host_undo_delegates(pl_host *);         // restores the nodes and the plan of the model
void pl_delegate_destroy(void (*destroy)(void *), void *delegate);

// ---- context.c ----

void pl_context_fill(TfLiteContext *);          // sets the functions that plug-ins call
void pl_host_refresh_external(pl_host *, TfLiteExternalContext *);
char *pl_host_take_errors(pl_host *);           // text reported since the last call, for the caller to free, or NULL
void pl_host_take_back(pl_host *);              // ends the use of this context by a delegate that acquired it

// ---- For all files ----

// The callbacks of a delegate that uses opaque types, else NULL.
static inline const TfLiteOpaqueDelegateBuilder *pl_opaque_builder(const TfLiteDelegate *d) {
  return d->Prepare == NULL ? d->opaque_delegate_builder : NULL;
}

// Sets bytes of an element; false for types without a fixed size.
static inline bool pl_size_of(TfLiteType type, size_t *bytes) {
  static const unsigned char sizes[] = {0, 4, 4, 1, 8, 0, 1, 2, 8, 1, 2, 8, 16, 8, 4, 0, 4, 2, 1, 2, 1, 1};
  if ((unsigned)type >= sizeof(sizes) || sizes[type] == 0) return false;
  *bytes = sizes[type];
  return true;
}

// Bits of an element, for types that are packed into bytes, else 0.
static inline unsigned pl_packed_bits(TfLiteType type) {
  return type == kTfLiteInt4 || type == kTfLiteUInt4 ? 4 : type == kTfLiteInt2 ? 2 : 0;
}

#endif
