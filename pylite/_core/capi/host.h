// The tables that plug-ins see: one pl_host for each subgraph that has any.
//
// They are TensorFlow Lite's own structs, not copies made at each call: what a plug-in reads and writes is what the host
// reads and writes.  No pointer into them ever moves.
//
// The files.  Each calls only functions of files before it in this list, which tests/capi/test_structure.py checks:
//
//   trap.c             calls a function of a plug-in; C++ exceptions and known faults become errors
//   registrations.c    reads and checks the registrations, operators and delegates of a library
//   buffer_handles.c   tensors whose contents are in a delegate's own memory: reads them back, frees them
//   delegate_params.c  TfLiteDelegateParams, for the kernels of delegates and for previews
//   calls.c            init, prepare, invoke and free of a node's plug-in
//   tables.c           creates, fills and frees the tables
//   delegates.c        applies a delegate, adds its nodes, removes them again
//   context.c          the functions of TfLiteContext, which plug-ins call
//
// hosting.pyx and kernels.pyx call these files.  Three shared libraries call none of them: guard.cc catches C++
// exceptions for trap.c, opaque_*.c export the functions of common.h, operator.h and c_api_opaque.h to plug-ins that
// import them, and resolver.c exports MutableOpResolver::AddCustom.
#ifndef PYLITE_HOST_H
#define PYLITE_HOST_H

#include "abi.h"
#include "../../include/tensorflow/lite/c/operator.h"
#include "guards.h"

// An op behind an opaque type.  The callbacks with `data` take precedence.
#define PL_OPERATOR 0x726f74617265706fu     // marks those that opaque_operators.c made
struct TfLiteOperator {
  uint64_t mark;
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
  TfLiteOperator *op;         // runs the node, for plug-ins behind opaque types
  TfLiteOperator *identity;   // what such plug-ins are told the node is; made when first asked for
  TfLiteIntArray *inputs;     // as the model has them; delegates may edit node.inputs
  bool owns_op, plugin, initialised;
  bool trapped;               // its functions are a library's, and called under a trap until they have been seen to run
  bool tried;                 // invoke() has run since the last prepare()
} pl_node;

typedef struct pl_host pl_host;

// What only Python knows; each returns a status.
typedef struct pl_callbacks {
  TfLiteStatus (*replace)(pl_host *, const TfLiteRegistration *, TfLiteOperator *, const TfLiteIntArray *nodes,
                          TfLiteDelegate *);
  TfLiteStatus (*preview)(pl_host *, const TfLiteIntArray *nodes);     // by pl_host_add_preview
  TfLiteStatus (*metadata)(pl_host *, const char *name, const char **data, size_t *bytes);
  TfLiteStatus (*subgraph)(pl_host *, int index, TfLiteContext **);
} pl_callbacks;

struct pl_host {
  TfLiteContext context;      // first: a plug-in's TfLiteContext * is a pl_host *
  size_t capacity;            // tensors that the table has room for
  size_t model_tensors;       // those of the model; the others were added by plug-ins
  bool invoking;              // a kernel runs
  pl_node **nodes;
  int num_nodes, model_nodes;
  TfLiteIntArray *plan, *model_plan, *plan_given;
  TfLiteIntArray *inputs, *outputs, *variables;
  TfLiteExternalContext **externals;
  TfLiteDelegateParams *previews;
  int num_previews;
  char *errors;
  char *name;
  bool delegating;            // a delegate's Prepare runs
  bool skippable;
  void *python;
  const pl_callbacks *callbacks;
};

// ---- trap.c ----

extern pl_guards pl_guard;

// guards: those of guard.cc, or NULL to keep plain calls.  catch_faults false: faults end the process, as others do.
void pl_set_guards(const pl_guards *guards, bool catch_faults);

#define PL_FORBIDDEN_BYTES 65536
void *pl_forbidden_new(void);               // memory that nobody may read or write
void pl_forbidden_free(void *);

// Calls fn(arguments); a fault that tells of a plug-in made for another runtime is reported and an error.
TfLiteStatus pl_trapped(TfLiteStatus (*fn)(void *), void *arguments, TfLiteContext *);
void *pl_trap_suspend(void);                // while Python runs inside of such a call
void pl_trap_resume(void *);

// ---- registrations.c ----

// Do these look like what they are taken for?  Functions must lie in a library, operators be of opaque_operators.c's making.
bool pl_registration_plausible(const TfLiteRegistration *);
bool pl_operator_plausible(const TfLiteOperator *);
bool pl_delegate_plausible(const TfLiteDelegate *);

void pl_registration_read(const TfLiteRegistration *from, TfLiteRegistration *to, TfLiteOperator **op);

// ---- buffer_handles.c ----

TfLiteStatus pl_host_read_back(pl_host *, int tensor);      // a stale tensor's contents from the delegate's buffer
void pl_host_free_handles(pl_host *);

// ---- delegate_params.c ----

// The struct and its arrays in one block, which one free() releases.
TfLiteDelegateParams *pl_delegate_params_new(TfLiteDelegate *, const TfLiteIntArray *nodes,
                                             const TfLiteIntArray *inputs, const TfLiteIntArray *outputs);
TfLiteOpaqueDelegateParams *pl_opaque_delegate_params_new(TfLiteDelegate *, const TfLiteIntArray *nodes,
                                                          const TfLiteIntArray *inputs, const TfLiteIntArray *outputs);
// Appends to what PreviewDelegatePartitioning returns: 0, or -1 without memory.
int pl_host_add_preview(pl_host *, const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                        const TfLiteIntArray *outputs);
void pl_host_drop_previews(pl_host *);

// ---- calls.c ----

void pl_node_set_kernel(pl_node *, const TfLiteRegistration *, TfLiteOperator *);
// Have node `index` run by a plug-in.  trapped: it comes from a library; see trap.c.
void pl_host_plug(pl_host *, int index, const TfLiteRegistration *, TfLiteOperator *, bool trapped);

TfLiteStatus pl_node_init(pl_host *, pl_node *, const char *buffer, size_t length);
TfLiteStatus pl_node_prepare(pl_host *, pl_node *);
void pl_node_end(pl_host *, pl_node *);     // the plug-in's free, once

// One plug-in node bound to memory.
typedef struct pl_place {
  int tensor;
  char *data;
  size_t bytes;
  bool band;                  // PL_BAND bytes behind it are ours
} pl_place;

#define PL_BAND 64
enum { PL_FAILED = 1, PL_MOVED, PL_OVERRUN };

int pl_run(pl_host *, pl_node *, const pl_place *places, int count);

// ---- tables.c ----

// fill: sets the functions of the context; pl_context_fill, which this file must not call.
pl_host *pl_host_new(size_t tensors, void (*fill)(TfLiteContext *), const pl_callbacks *callbacks, void *python,
                     TfLiteExternalContext **externals);
void pl_host_free(pl_host *);
pl_node *pl_node_new(pl_host *);
void pl_node_free(pl_host *, pl_node *);

// Set up a tensor or a node of the model.  Strings and arrays are copied; `data` and `options` stay the caller's.
// 0, or -1 without memory.
int pl_host_tensor(pl_host *, int index, const char *name, int type, const TfLiteIntArray *dims,
                   const TfLiteIntArray *signature, int allocation_type, const void *data, size_t bytes, int is_variable);
int pl_host_quantization(pl_host *, int index, const float *scales, const int64_t *zero_points, int count, int axis);
// Takes the arrays over; what is compressed is for the caller to fill in.
TfLiteSparsity *pl_host_sparsity(pl_host *, int index, TfLiteIntArray *order, TfLiteIntArray *blocks, int dimensions);
int pl_host_blockwise(pl_host *, int index, int scale, int zero_point, int block_size, int axis);
int pl_host_node(pl_host *, int builtin_code, const char *custom_name, int version, const TfLiteIntArray *inputs,
                 const TfLiteIntArray *outputs, const TfLiteIntArray *intermediates, const void *params,
                 size_t params_size, const void *options, int options_size);

// ---- delegates.c ----

TfLiteStatus pl_host_apply(pl_host *, TfLiteDelegate *);
TfLiteStatus pl_host_delegate_node(pl_host *, const TfLiteRegistration *, TfLiteOperator *, TfLiteDelegate *,
                                   const TfLiteIntArray *nodes, const TfLiteIntArray *inputs,
                                   const TfLiteIntArray *outputs);
void pl_host_undo(pl_host *);
void pl_delegate_end(void (*end)(void *), void *delegate);

// ---- context.c ----

void pl_context_fill(TfLiteContext *);      // the functions that plug-ins call
void pl_refresh(pl_host *, TfLiteExternalContext *);

// ---- For all files ----

// The callbacks of a delegate behind an opaque type, else NULL.
static inline const TfLiteOpaqueDelegateBuilder *pl_opaque_builder(const TfLiteDelegate *d) {
  return d->Prepare == NULL ? d->opaque_delegate_builder : NULL;
}

// Bytes of one element; false for types without a size.
static inline bool pl_size_of(TfLiteType type, size_t *bytes) {
  static const unsigned char sizes[] = {0, 4, 4, 1, 8, 0, 1, 2, 8, 1, 2, 8, 16, 8, 4, 0, 4, 2, 1, 2, 1, 1};
  if ((unsigned)type >= sizeof(sizes) || sizes[type] == 0) return false;
  *bytes = sizes[type];
  return true;
}

// Bits of one element of the types that are packed into bytes, else 0.
static inline unsigned pl_packed_bits(TfLiteType type) {
  return type == kTfLiteInt4 || type == kTfLiteUInt4 ? 4 : type == kTfLiteInt2 ? 2 : 0;
}

#endif
