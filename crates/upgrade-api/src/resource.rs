//! What kube wants to know of a kind. Its derive would do the same, at the
//! price of a schema generator that nothing else here needs.

/// Makes a namespaced kind with a `metadata` field known to kube, and gives it
/// the two fields that name it in JSON.
#[macro_export]
macro_rules! resource {
    ($type:ident, $group:expr, $version:expr, $plural:expr) => {
        impl $crate::reexport::kube::Resource for $type {
            type DynamicType = ();
            type Scope = $crate::reexport::kube::core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($type).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(
                &self,
            ) -> &$crate::reexport::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(
                &mut self,
            ) -> &mut $crate::reexport::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta
            {
                &mut self.metadata
            }
        }

        impl $type {
            fn own_api_version() -> String {
                <Self as $crate::reexport::kube::Resource>::api_version(&()).into_owned()
            }

            fn own_kind() -> String {
                <Self as $crate::reexport::kube::Resource>::kind(&()).into_owned()
            }
        }
    };
}
