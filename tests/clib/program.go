// A program in Go on the C library, by cgo: goroutines run the model os.Args[1], x + y of (2, 3), at the same time.
package main

/*
#include <stdlib.h>
#include "tensorflow/lite/c/c_api.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

const goroutines, runs, elements = 8, 20, 6

func check(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

func fill(tensor *C.TfLiteTensor, start float32) {
	var values [elements]float32
	for i := range values {
		values[i] = start + float32(i)
	}
	bytes := C.size_t(unsafe.Sizeof(values))
	check(C.TfLiteTensorCopyFromBuffer(tensor, unsafe.Pointer(&values[0]), bytes) == C.kTfLiteOk, "copy in")
}

// The sum of all results of an interpreter of its own.  Between calls, Go moves the goroutine from thread to thread.
func total(model *C.TfLiteModel, start float32) float32 {
	interpreter := C.TfLiteInterpreterCreate(model, nil)
	check(interpreter != nil, "create")
	defer C.TfLiteInterpreterDelete(interpreter)
	check(C.TfLiteInterpreterAllocateTensors(interpreter) == C.kTfLiteOk, "allocate")
	var found float32
	for k := 0; k < runs; k++ {
		for i := C.int32_t(0); i < C.TfLiteInterpreterGetInputTensorCount(interpreter); i++ {
			fill(C.TfLiteInterpreterGetInputTensor(interpreter, i), start)
		}
		check(C.TfLiteInterpreterInvoke(interpreter) == C.kTfLiteOk, "invoke")
		var values [elements]float32
		output := C.TfLiteInterpreterGetOutputTensor(interpreter, 0)
		bytes := C.size_t(unsafe.Sizeof(values))
		check(C.TfLiteTensorCopyToBuffer(output, unsafe.Pointer(&values[0]), bytes) == C.kTfLiteOk, "copy out")
		for _, value := range values {
			found += value
		}
	}
	check(C.TfLiteInterpreterGetInputTensor(interpreter, 9) == nil, "an input that is not there")
	return found
}

func main() {
	path := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(path))
	model := C.TfLiteModelCreateFromFile(path)
	check(model != nil, "model")
	var found [goroutines]float32
	var group sync.WaitGroup
	for k := range found {
		group.Add(1)
		go func(k int) {
			defer group.Done()
			found[k] = total(model, float32(k))
		}(k)
	}
	group.Wait()
	C.TfLiteModelDelete(model)
	for _, value := range found {
		fmt.Print(value/runs, " ")
	}
	fmt.Println()
}
