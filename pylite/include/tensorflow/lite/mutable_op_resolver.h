// The argument of C++ functions that register ops: `void f(tflite::MutableOpResolver*)`, called by load_custom_ops().
#ifndef TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_

#include <stdint.h>
#include <string.h>

#include <string>

#include "builtin_ops.h"
#include "c/common.h"

namespace tflite {

// A number of builtin_ops.h: static_cast<tflite::BuiltinOperator>(kTfLiteBuiltinTanh).
enum BuiltinOperator : int32_t {};

class OpResolver {
 public:
  // What was added last for this version, or null: pylite's own kernels have no registration.
  virtual const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const = 0;
  virtual const TfLiteRegistration* FindOp(const char* name, int version) const = 0;

 protected:
  ~OpResolver() = default;
};

// Functions get the host's.  Others, which a plug-in makes itself, collect registrations for AddAll.  Registrations are
// copied.  Only AddCustom is a function of the host: other runtimes in the process call functions of the same names.
class MutableOpResolver : public OpResolver {
 public:
  MutableOpResolver() : magic_(0x70796c697465u), add_(&Append), entries_(nullptr) {}
  ~MutableOpResolver() {
    while (entries_ != nullptr) {
      Entry* last = entries_;
      entries_ = last->before;
      delete last;
    }
  }
  MutableOpResolver(const MutableOpResolver&) = delete;
  MutableOpResolver& operator=(const MutableOpResolver&) = delete;

  void AddCustom(const char* name, const TfLiteRegistration* registration, int version = 1);
  void AddCustom(const char* name, const TfLiteRegistration* registration, int min_version, int max_version);
  // Replaces pylite's kernels of a builtin op.
  void AddBuiltin(BuiltinOperator op, const TfLiteRegistration* registration, int version = 1) {
    add_(this, nullptr, op, registration, version, version);
  }
  void AddBuiltin(BuiltinOperator op, const TfLiteRegistration* registration, int min_version, int max_version) {
    add_(this, nullptr, op, registration, min_version, max_version);
  }
  // What a resolver has that the plug-in made.
  void AddAll(const MutableOpResolver& other) { AddEach(other.entries_); }

  const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const override {
    for (const Entry* e = entries_; e != nullptr; e = e->before) {
      if (e->name.empty() && e->op == op && e->low <= version && version <= e->high) return &e->registration;
    }
    return nullptr;
  }
  const TfLiteRegistration* FindOp(const char* name, int version) const override {
    for (const Entry* e = entries_; e != nullptr; e = e->before) {
      if (e->name == name && e->low <= version && version <= e->high) return &e->registration;
    }
    return nullptr;
  }

 private:
  struct Entry {
    Entry* before;
    std::string name;  // empty: the builtin op
    int op, low, high;
    TfLiteRegistration registration;
  };

  static void Append(void* self, const char* name, int op, const TfLiteRegistration* registration, int low, int high) {
    MutableOpResolver* resolver = static_cast<MutableOpResolver*>(self);
    resolver->entries_ = new Entry{resolver->entries_, name != nullptr ? name : "", op, low, high, *registration};
  }

  void AddEach(const Entry* last) {
    if (last == nullptr) return;
    AddEach(last->before);  // the first one first
    add_(this, last->name.empty() ? nullptr : last->name.c_str(), last->op, &last->registration, last->low, last->high);
  }

  uint64_t magic_;  // the host's has the same fields
  void (*add_)(void* self, const char* name, int op, const TfLiteRegistration*, int low, int high);
  Entry* entries_;  // of resolvers that the plug-in made
};

}  // namespace tflite

#endif
